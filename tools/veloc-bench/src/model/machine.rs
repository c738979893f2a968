//! A node in virtual time: its resources, what moves, what waits for a time, and the driver's locks.
//!
//! Time passes only in [`SimulatedNode::next`], from one arrival or timer to the next. Nothing is random:
//! the same calls have the same answers.

use std::collections::BTreeMap;

use super::flow::{Demand, Flow, FlowGroup, MOST_DEMANDS};
use super::motion::Motion;
use super::node::NodeFigures;
use super::node_lock::SimulatedLock;

/// The number of a process.
pub(super) type ProcessNumber = usize;

/// The part of a process that is told of an arrival or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
    /// The application's thread.
    Application,
    Flush,
    Fetch,
    /// Maps the device cache.
    Map,
    /// Touches pages.
    Touch,
    /// Registers chunks.
    Pin,
    /// Looks whether the node lock is free.
    NodeLock,
    /// Looks whether there is an idle window to register in.
    IdleWindow,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Timer(ProcessNumber, Actor),
    /// The next arrival in a domain, as foreseen when the domain had this version.
    Arrival(usize, u64),
}

#[derive(Debug, Default)]
struct MemoryDomain {
    group: FlowGroup,
    /// The motion of each flow, in the order of the group's flows.
    motions: Vec<Motion>,
    version: u64,
    dirty: bool,
}

/// A node in virtual time.
#[derive(Debug)]
pub(super) struct SimulatedNode {
    node: NodeFigures,
    now: f64,
    domains: Vec<MemoryDomain>,
    /// The coming timers and arrivals, by time (whose bits are in order, as none is negative) and
    /// by when they were asked for.
    queue: BTreeMap<(u64, u64), What>,
    sequence: u64,
    /// Whether a registration stops the copies of each process.
    stopped: Vec<bool>,
    /// Bytes by which the device cache of each process has grown.
    grown: Vec<u64>,
    /// The lock on registering.
    pub node_lock: SimulatedLock,
}

/// The resources of a memory domain, in the order of [`FlowGroup::resources`].
const MEMORY: usize = 0;
const RESOURCES_PER_GPU: usize = 3;

impl SimulatedNode {
    /// An idle node with so many processes, dealt out to the GPUs in turn.
    pub(super) fn new(node: &NodeFigures, processes: usize) -> SimulatedNode {
        let domains = (0..node.gpus.div_ceil(node.gpus_per_domain))
            .map(|_| {
                let mut resources = vec![node.memory.value];
                for _ in 0..node.gpus_per_domain {
                    // A link that several GPUs share is the link of the first of them.
                    resources.extend([node.device_copy.value, node.link.value, node.link.value]);
                }
                MemoryDomain { group: FlowGroup::new(resources), ..MemoryDomain::default() }
            })
            .collect();
        SimulatedNode {
            node: node.clone(),
            now: 0.0,
            domains,
            queue: BTreeMap::new(),
            sequence: 0,
            stopped: vec![false; processes],
            grown: vec![0; processes],
            node_lock: SimulatedLock::default(),
        }
    }

    /// The time, in seconds from the start.
    pub(super) fn now(&self) -> f64 {
        self.now
    }

    pub(super) fn node(&self) -> &NodeFigures {
        &self.node
    }

    /// Processes on the same GPU, this one included.
    pub(super) fn neighbours(&self, process: ProcessNumber) -> usize {
        let gpu = self.gpu(process);
        (0..self.stopped.len()).filter(|&other| self.gpu(other) == gpu).count()
    }

    /// The device cache of a process has grown.
    pub(super) fn cache_grows(&mut self, process: ProcessNumber, bytes: u64) {
        self.grown[process] += bytes;
    }

    /// By how many bytes the caches on a process's GPU have grown, its own included.
    pub(super) fn caches_grown(&self, process: ProcessNumber) -> u64 {
        let gpu = self.gpu(process);
        let grown = self.grown.iter().enumerate();
        grown.filter(|&(other, _)| self.gpu(other) == gpu).map(|(_, bytes)| bytes).sum()
    }

    /// Tells `actor` after so many seconds.
    pub(super) fn timer(&mut self, process: ProcessNumber, actor: Actor, seconds: f64) {
        self.push(self.now + seconds, What::Timer(process, actor));
    }

    /// Moves `bytes`, and tells `actor` when that is done.
    pub(super) fn flow(
        &mut self,
        process: ProcessNumber,
        actor: Actor,
        motion: Motion,
        bytes: u64,
    ) {
        let (domain, demands) = self.demands(process, motion);
        if motion.is_pinning() || motion == Motion::AllocateDevice {
            // Registrations slow each other down all over the node.
            self.touch_all();
        }
        let now = self.now;
        let domain = &mut self.domains[domain];
        domain.group.advance(now);
        let left = bytes as f64;
        domain.group.flows.push(Flow { process, actor, left, limit: 0.0, demands, rate: 0.0 });
        domain.motions.push(motion);
        domain.dirty = true;
    }

    /// Sets whether a registration stops the copies of this process.
    pub(super) fn stop_copies(&mut self, process: ProcessNumber, stopped: bool) {
        self.stopped[process] = stopped;
        let domain = self.domain(process);
        self.domains[domain].group.advance(self.now);
        self.domains[domain].dirty = true;
    }

    /// Lets time pass until an actor is told. `None`: nothing will ever happen.
    pub(super) fn next(&mut self) -> Option<(ProcessNumber, Actor)> {
        self.share_anew();
        while let Some(((time, _), what)) = self.queue.pop_first() {
            let time = f64::from_bits(time);
            match what {
                What::Timer(process, actor) => {
                    self.now = time;
                    return Some((process, actor));
                }
                What::Arrival(domain, version) if self.domains[domain].version == version => {
                    self.now = time;
                    if let Some(told) = self.arrive(domain) {
                        return Some(told);
                    }
                    self.share_anew();
                }
                What::Arrival(..) => {}
            }
        }
        None
    }

    fn arrive(&mut self, index: usize) -> Option<(ProcessNumber, Actor)> {
        let now = self.now;
        let domain = &mut self.domains[index];
        domain.group.advance(now);
        domain.dirty = true;
        let (at, flow) = domain.group.take_arrived()?;
        let motion = domain.motions.remove(at);
        if motion.is_pinning() || motion == Motion::AllocateDevice {
            self.touch_all();
        }
        Some((flow.process, flow.actor))
    }

    /// Marks every domain: something has changed that all of them depend on.
    fn touch_all(&mut self) {
        for domain in &mut self.domains {
            domain.group.advance(self.now);
            domain.dirty = true;
        }
    }

    /// Computes new rates in the domains that have changed.
    fn share_anew(&mut self) {
        let count = |which: fn(Motion) -> bool| {
            let motions = self.domains.iter().flat_map(|domain| &domain.motions);
            motions.filter(|&&motion| which(motion)).count() as f64
        };
        let pinning = count(Motion::is_pinning);
        let allocating = count(|motion| motion == Motion::AllocateDevice);
        for index in 0..self.domains.len() {
            if !std::mem::take(&mut self.domains[index].dirty) {
                continue;
            }
            let domain = &mut self.domains[index];
            for (flow, &motion) in domain.group.flows.iter_mut().zip(&domain.motions) {
                flow.limit = match motion {
                    motion if motion.is_copy() && self.stopped[flow.process] => 0.0,
                    // Inversely proportional to the number of processes that register (HiPC'22,
                    // V-E).
                    motion if motion.is_pinning() => motion.limit(&self.node) / pinning,
                    Motion::AllocateDevice => motion.limit(&self.node) / allocating,
                    motion => motion.limit(&self.node),
                };
            }
            domain.group.share();
            domain.version += 1;
            let version = domain.version;
            if let Some(time) = domain.group.next_arrival() {
                self.push(time, What::Arrival(index, version));
            }
        }
    }

    fn push(&mut self, time: f64, what: What) {
        self.sequence += 1;
        self.queue.insert((time.to_bits(), self.sequence), what);
    }

    fn gpu(&self, process: ProcessNumber) -> usize {
        process % self.node.gpus
    }

    fn domain(&self, process: ProcessNumber) -> usize {
        self.gpu(process) / self.node.gpus_per_domain
    }

    fn demands(&self, process: ProcessNumber, motion: Motion) -> (usize, [Demand; MOST_DEMANDS]) {
        let within = self.gpu(process) % self.node.gpus_per_domain;
        let link_of = within / self.node.gpus_per_link * self.node.gpus_per_link;
        let device = 1 + within * RESOURCES_PER_GPU;
        let (down, up) = (2 + link_of * RESOURCES_PER_GPU, 3 + link_of * RESOURCES_PER_GPU);
        let staged = self.node.staging.value;
        // A page's zeros take as much memory bandwidth as the bytes written to it.
        let zeros = 1.0;
        let (device, link, memory) = match motion {
            Motion::OnDevice => (Some(device), None, 0.0),
            Motion::Down { registered: true, .. } => (None, Some(down), 1.0),
            Motion::Down { registered: false, touched } => {
                (None, Some(down), staged + if touched { 0.0 } else { zeros })
            }
            Motion::Up { registered: true } => (None, Some(up), 1.0),
            Motion::Up { registered: false } => (None, Some(up), staged),
            Motion::Touch | Motion::AllocateHost => (None, None, zeros),
            Motion::Register | Motion::AllocateDevice => (None, None, 0.0),
        };
        let mut demands = [Demand { resource: MEMORY, per_byte: memory }; MOST_DEMANDS];
        demands[1] =
            Demand { resource: device.unwrap_or(MEMORY), per_byte: f64::from(device.is_some()) };
        demands[2] =
            Demand { resource: link.unwrap_or(MEMORY), per_byte: f64::from(link.is_some()) };
        (self.domain(process), demands)
    }
}
