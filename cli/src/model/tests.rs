use super::node::dgx_a100;
use super::scenario::*;
use super::simulation::simulate;
use crate::bench::plan::ApproachName;
use veloc_client::policy::register::Pin;
use veloc_client::policy::touch::Touch;

#[test]
fn probe() {
    for processes in [1, 8] {
        for interval in [5e-3, 10e-3, 20e-3, 40e-3, 60e-3, 80e-3] {
            let t = std::time::Instant::now();
            let run = |approach, touch, pin| {
                let mut s = Scenario::large_host(dgx_a100(), approach, processes, interval);
                s.touch = touch;
                s.pin = pin;
                s.map_chunk = 1 << 30;
                let o = simulate(&s).unwrap();
                (
                    per_process(&o, Outcome::checkpointing),
                    per_process(&o, Outcome::total),
                    per_process(&o, |o| o.touched_at),
                    per_process(&o, |o| o.registered_at),
                    o[0].mode_changes,
                )
            };
            let direct = run(ApproachName::DirectPin, Touch::Auto, Pin::Off);
            println!("{processes} {:.0}ms direct {:.3} {:.3}", interval * 1e3, direct.0, direct.1);
            for (n, a, t, p) in [
                ("auto", ApproachName::Ours, Touch::Auto, Pin::Serial),
                ("seq", ApproachName::Ours, Touch::Sequential, Pin::Serial),
                ("con", ApproachName::Ours, Touch::Concurrent, Pin::Serial),
                ("con par", ApproachName::Ours, Touch::Concurrent, Pin::Parallel),
                ("chunk", ApproachName::Ours, Touch::Concurrent, Pin::Chunked),
                ("off", ApproachName::Ours, Touch::Concurrent, Pin::Off),
                ("memset", ApproachName::IncrementalMemset, Touch::Concurrent, Pin::Off),
                ("uvm", ApproachName::Uvm, Touch::Concurrent, Pin::Off),
                ("ring", ApproachName::Ring, Touch::Concurrent, Pin::Off),
            ] {
                let r = run(a, t, p);
                println!("    {n:8} ckpt {:.3} ({:.1}x) total {:.3} ({:.1}x) touched {:.2} registered {:.2} changes {}", r.0, direct.0 / r.0, r.1, direct.1 / r.1, r.2, r.3, r.4);
            }
            println!("    took {:?}", t.elapsed());
        }
    }
}
