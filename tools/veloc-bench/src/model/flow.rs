//! Flows that share resources: the fluid part of the model.
//!
//! A flow moves bytes at a rate that it may not exceed, and takes a share of some resources for
//! each byte. Rates are max-min fair: all flows grow alike until a resource is used up or a flow
//! has reached its own limit; the flows concerned stop growing, the others go on.

use super::machine::{Actor, ProcessNumber};

/// The most resources that one flow uses: device memory, a link and host memory.
pub(super) const MOST_DEMANDS: usize = 3;

/// A flow with no more bytes than this to go has arrived: rounding leaves some, which would take no
/// noticeable time.
const NOTHING: f64 = 4.0;

/// The number of a resource, of which flows take shares: so many bytes a second, whoever uses them.
pub(super) type Resource = usize;

/// The share of a resource that a flow takes for each of its own bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    pub resource: Resource,
    /// Bytes of the resource for each byte that is moved; 0 for none.
    pub per_byte: f64,
}

/// Bytes on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// The process that moves them.
    pub process: ProcessNumber,
    /// The actor that is told when they have arrived.
    pub actor: Actor,
    /// Bytes to go.
    pub left: f64,
    /// Bytes per second that the flow reaches alone; 0 while it is stopped.
    pub limit: f64,
    /// The shares of resources that the flow takes.
    pub demands: [Demand; MOST_DEMANDS],
    /// Bytes per second now.
    pub rate: f64,
}

/// Flows and the resources that they share.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowGroup {
    /// Bytes per second of each resource.
    pub resources: Vec<f64>,
    pub flows: Vec<Flow>,
    /// The time up to which the flows have been followed.
    now: f64,
    /// The rest of each resource, while shares are computed.
    spare: Vec<f64>,
}

impl FlowGroup {
    /// A group without flows.
    pub(super) fn new(resources: Vec<f64>) -> FlowGroup {
        FlowGroup { resources, ..FlowGroup::default() }
    }

    /// Lets the flows go on until `now`.
    pub(super) fn advance(&mut self, now: f64) {
        let seconds = now - self.now;
        self.now = now;
        if seconds > 0.0 {
            for flow in &mut self.flows {
                flow.left -= flow.rate * seconds;
            }
        }
    }

    /// Takes out a flow that has arrived, if one has, with its index: the first that was started.
    pub(super) fn take_arrived(&mut self) -> Option<(usize, Flow)> {
        let arrived = self.flows.iter().position(|flow| flow.left <= NOTHING)?;
        Some((arrived, self.flows.remove(arrived)))
    }

    /// When the next flow arrives if nothing changes; `None` if none does.
    pub(super) fn next_arrival(&self) -> Option<f64> {
        let arrivals = self.flows.iter().filter_map(|flow| {
            if flow.left <= NOTHING {
                return Some(self.now);
            }
            (flow.rate > 0.0).then(|| self.now + flow.left / flow.rate)
        });
        arrivals.min_by(f64::total_cmp)
    }

    /// Gives every flow its rate.
    pub(super) fn share(&mut self) {
        self.spare.clone_from(&self.resources);
        let mut growing: Vec<usize> = Vec::with_capacity(self.flows.len());
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.rate = 0.0;
            if flow.limit > 0.0 {
                growing.push(index);
            }
        }
        let mut wanted = vec![0.0; self.resources.len()];
        let mut level = 0.0;
        while !growing.is_empty() {
            wanted.fill(0.0);
            let mut step = f64::INFINITY;
            for &index in &growing {
                step = step.min(self.flows[index].limit - level);
                for demand in &self.flows[index].demands {
                    wanted[demand.resource] += demand.per_byte;
                }
            }
            for (spare, &wanted) in self.spare.iter().zip(&wanted) {
                if wanted > 0.0 {
                    step = step.min(spare / wanted);
                }
            }
            level += step;
            for (spare, &wanted) in self.spare.iter_mut().zip(&wanted) {
                *spare -= step * wanted;
            }
            let (flows, spare, resources) = (&mut self.flows, &self.spare, &self.resources);
            let before = growing.len();
            growing.retain(|&index| {
                let flow = &mut flows[index];
                flow.rate = level;
                let used_up = flow.demands.iter().any(|demand| {
                    demand.per_byte > 0.0
                        && is_used_up(spare[demand.resource], resources[demand.resource])
                });
                !used_up && flow.limit > level * (1.0 + f64::EPSILON)
            });
            if growing.len() == before {
                // Rounding has left a little of the resource that was to stop this step.
                break;
            }
        }
    }
}

/// Whether nothing but a rounding error is left of a resource.
fn is_used_up(spare: f64, whole: f64) -> bool {
    spare <= whole * 1e-12
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(limit: f64, demands: &[(Resource, f64)]) -> Flow {
        let mut all = [Demand::default(); MOST_DEMANDS];
        for (slot, &(resource, per_byte)) in all.iter_mut().zip(demands) {
            *slot = Demand { resource, per_byte };
        }
        Flow { process: 0, actor: Actor::Application, left: 1e9, limit, demands: all, rate: 0.0 }
    }

    fn rates(resources: &[f64], flows: Vec<Flow>) -> Vec<f64> {
        let mut group = FlowGroup { resources: resources.to_vec(), flows, ..FlowGroup::default() };
        group.share();
        group.flows.iter().map(|flow| flow.rate).collect()
    }

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "{found} {expected}");
        }
    }

    /// Catches shares that do not leave to others what one flow cannot use.
    #[test]
    fn what_one_cannot_use_the_others_share() {
        let flows =
            vec![flow(2.0, &[(0, 1.0)]), flow(100.0, &[(0, 1.0)]), flow(100.0, &[(0, 1.0)])];
        close(&rates(&[12.0], flows), &[2.0, 5.0, 5.0]);
    }

    /// Catches a flow that is counted by its own bytes where it takes several of a resource for
    /// each.
    #[test]
    fn demands_are_weighed() {
        let flows = vec![flow(100.0, &[(0, 3.0)]), flow(100.0, &[(0, 1.0)])];
        close(&rates(&[12.0], flows), &[3.0, 3.0]);
    }

    /// Catches a bottleneck that holds up flows which do not use it.
    #[test]
    fn a_bottleneck_holds_up_only_its_users() {
        let flows = vec![
            flow(100.0, &[(0, 1.0), (1, 1.0)]),
            flow(100.0, &[(0, 1.0)]),
            flow(0.0, &[(1, 1.0)]),
        ];
        close(&rates(&[10.0, 2.0], flows), &[2.0, 8.0, 0.0]);
    }

    #[test]
    fn no_resource_is_overdrawn_and_no_flow_is_held_up_without_a_reason() {
        let mut seed = 7u64;
        let mut random = |below: u64| crate::plan::splitmix(&mut seed) % below;
        for _ in 0..500 {
            let resources: Vec<f64> = (0..4).map(|_| 1.0 + random(50) as f64).collect();
            let flows: Vec<Flow> = (0..1 + random(9))
                .map(|_| {
                    let demands = [(random(4) as usize, 1.0), (random(4) as usize, 0.5)];
                    flow(random(30) as f64, &demands)
                })
                .collect();
            let mut group = FlowGroup { resources, flows, ..FlowGroup::default() };
            group.share();
            let mut used = [0.0; 4];
            for flow in &group.flows {
                for demand in &flow.demands {
                    used[demand.resource] += demand.per_byte * flow.rate;
                }
            }
            for (used, whole) in used.iter().zip(&group.resources) {
                assert!(*used <= whole * (1.0 + 1e-9), "{group:?}");
            }
            for flow in &group.flows {
                let full = flow.demands.iter().any(|demand| {
                    demand.per_byte > 0.0
                        && used[demand.resource] >= group.resources[demand.resource] * (1.0 - 1e-9)
                });
                assert!(full || flow.rate >= flow.limit * (1.0 - 1e-9), "{flow:?} in {group:?}");
            }
        }
    }
}
