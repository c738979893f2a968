//! What copies reach, by kind, size and number of streams.

use std::time::Instant;

use anyhow::Result;
use device::Stream;
use serde::Serialize;

use super::pages::{Kind, Pages};
use super::{rate, Bench, Times};
use crate::bench::cuda::Buffer;
use crate::bench::host::number;
use crate::size;

/// Bytes of one copy.
const SIZES: [u64; 6] = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20, 1 << 30];

/// Bytes that are queued before anybody waits, at the least; and the most copies.
const QUEUED: u64 = 256 << 20;
const MOST_COPIES: u64 = 256;

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// Within the device.
    Within,
    /// To the host.
    Down,
    /// From the host.
    Up,
    /// To the host in one stream and from the host in another: the sum of both.
    Both,
    /// Within the device in one stream while another copies to the host: the former alone.
    WithinBesideDown,
}

/// The host memory of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Host {
    /// Registered.
    Registered,
    /// Its pages exist.
    Touched,
    /// Its pages do not exist.
    Untouched,
}

/// One kind of copy, with all repeats.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    way: Way,
    host: Option<Host>,
    /// Bytes of a copy.
    bytes: u64,
    /// Copies that are queued before anybody waits.
    copies: u64,
    /// Streams among which they are dealt out.
    streams: usize,
    /// GB/s of each repeat.
    rates: Vec<f64>,
}

/// The device memory and the streams of all of them.
struct Place {
    from: Buffer,
    to: Buffer,
    streams: [Stream; 2],
}

/// Measures all of them.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    println!("copies, dealt out among streams");
    println!(
        "{:<26} {:<11} {:>8} {:>7} {:>8} {:>9} {:>20}",
        "", "host memory", "bytes", "copies", "streams", "GB/s", "least .. greatest"
    );
    let largest = SIZES.into_iter().filter(|bytes| *bytes <= bench.total / 2).max().unwrap_or(0);
    let place = Place {
        from: Buffer::new(bench.device, largest)?,
        to: Buffer::new(bench.device, largest)?,
        streams: [Stream::new(bench.device)?, Stream::new(bench.device)?],
    };
    for buffer in [&place.from, &place.to] {
        buffer.clear(&place.streams[0])?;
    }
    place.streams[0].synchronize()?;
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= largest) {
        let copies = (QUEUED / bytes).clamp(1, MOST_COPIES);
        let mut kinds = vec![(Way::Within, None, 1), (Way::Within, None, 2)];
        for way in [Way::Down, Way::Up] {
            kinds.push((way, Some(Host::Registered), 1));
            kinds.push((way, Some(Host::Registered), 2));
            kinds.push((way, Some(Host::Touched), 1));
        }
        if bytes >= 64 << 20 {
            kinds.push((Way::Down, Some(Host::Untouched), 1));
        }
        kinds.push((Way::Both, Some(Host::Registered), 2));
        kinds.push((Way::WithinBesideDown, Some(Host::Registered), 2));
        for (way, host, streams) in kinds {
            let mut point = Point { way, host, bytes, copies, streams, rates: Vec::new() };
            for _ in 0..bench.repeats {
                measure(&place, &mut point)?;
            }
            print(&point);
            bench.keep(super::Point::Copies(point))?;
        }
    }
    Ok(())
}

fn measure(place: &Place, point: &mut Point) -> Result<()> {
    let bytes = point.bytes;
    let kind = match point.host {
        Some(Host::Untouched) => Kind::HugeUntouched,
        _ => Kind::HugeTouched,
    };
    // Copies in both directions have places of their own.
    let mut pages = Pages::new(2 * bytes, kind)?;
    if point.host == Some(Host::Registered) {
        pages.register(0, bytes)?;
        pages.register(bytes, bytes)?;
    }
    let (from, to) = (place.from.address(), place.to.address());
    let copy = |way: Way, stream: &Stream| {
        // SAFETY: both buffers have at least `bytes` bytes, and the host memory twice as many;
        // each registration covers the bytes of one copy; nobody reads what is written, and the
        // streams are waited for before the pages go.
        unsafe {
            match way {
                Way::Down => stream.copy_to_host(pages.at(0), from, bytes),
                Way::Up => stream.copy_from_host(to, pages.at(bytes), bytes),
                Way::Within | Way::Both | Way::WithinBesideDown => {
                    stream.copy_on_device(to, from, bytes)
                }
            }
        }
    };
    let [one, two] = &place.streams;
    // The first copy of a kind may pay for what the driver prepares.
    if point.host != Some(Host::Untouched) {
        copy(point.way, one)?;
        one.synchronize()?;
    }
    let since = Instant::now();
    let mut seconds = None;
    let queued = (0..point.copies).try_for_each(|index| match (point.way, point.streams) {
        (Way::Both, _) => copy(Way::Down, one).and_then(|()| copy(Way::Up, two)),
        (Way::WithinBesideDown, _) => copy(Way::Down, two).and_then(|()| copy(Way::Within, one)),
        (way, 2) if index % 2 == 1 => copy(way, two),
        (way, _) => copy(way, one),
    });
    let mut waited = one.synchronize();
    if point.way == Way::WithinBesideDown {
        seconds = Some(since.elapsed().as_secs_f64());
    }
    // Both, whatever happens: nothing may use the pages any more.
    waited = two.synchronize().and(waited);
    queued.and(waited)?;
    let seconds = seconds.unwrap_or_else(|| since.elapsed().as_secs_f64());
    let ways = if point.way == Way::Both { 2 } else { 1 };
    point.rates.push(rate(ways * bytes * point.copies, seconds));
    Ok(())
}

fn print(point: &Point) {
    let way = match point.way {
        Way::Within => "within the device",
        Way::Down => "device to host",
        Way::Up => "host to device",
        Way::Both => "both ways at once",
        Way::WithinBesideDown => "within, beside one to host",
    };
    let host = match point.host {
        None => "",
        Some(Host::Registered) => "registered",
        Some(Host::Touched) => "touched",
        Some(Host::Untouched) => "untouched",
    };
    let times = Times::of(point.rates.clone());
    let least = point.rates.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "{way:<26} {host:<11} {:>8} {:>7} {:>8} {:>9} {:>20}",
        size::show(point.bytes),
        point.copies,
        point.streams,
        number(times.median),
        format!("{} .. {}", number(least), number(times.longest))
    );
}
