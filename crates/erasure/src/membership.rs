//! The information that the processes of a job exchange over MPI at the start, and each one's
//! group, leader and followers.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::groups;
use super::wire::Token;
use errors::{Error, Result};

/// How many groups follow the decisions of one: the breadth of the tree.
const BREADTH: usize = 8;

/// Settings that all processes must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureSettings {
    /// The least seconds between two encodings (`ec_interval`).
    pub interval: u64,
    /// The approximate size of a group (`ec_group`).
    pub group: u32,
    /// How many members may be lost (`ec_parity`).
    pub parities: u32,
}

/// The information that all processes have about one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its settings.
    pub settings: ErasureSettings,
    /// Its host.
    pub host: String,
    /// Identifies the network namespace: processes with the same value share a loopback interface.
    pub loopback: String,
    /// Its failure domain (`failure_domain`).
    pub domain: String,
    /// Its addresses, the loopback last.
    pub addresses: Vec<SocketAddr>,
    /// The secret that a caller must send.
    pub token: Token,
}

impl ProcessInfo {
    /// The addresses to connect to from another process, best first.
    pub fn addresses_from(&self, other: &ProcessInfo) -> Vec<SocketAddr> {
        let here = self.loopback == other.loopback;
        let (loopback, others): (Vec<_>, Vec<_>) =
            self.addresses.iter().copied().partition(|address| address.ip().is_loopback());
        if here {
            // The loopback may be another host's if the two cannot be told apart; nobody there knows the
            // token.
            loopback.into_iter().chain(others).collect()
        } else {
            others
        }
    }
}

/// One process's group and its place in the decision tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The ranks of its group, ascending.
    pub members: Vec<u32>,
    /// Its index in the group.
    pub own: usize,
    /// The rank whose decisions it follows; `None`: it decides.
    pub leader: Option<u32>,
    /// The ranks that follow its decisions.
    pub followers: Vec<u32>,
}

/// Finds the membership of rank `own` from the information of all processes (`None`: no erasure coding),
/// and a warning about what is not protected. There is no membership if there are too few processes.
///
/// # Errors
/// The processes have different settings.
pub fn membership_of(
    infos: &[Option<ProcessInfo>],
    own: u32,
) -> Result<(Option<Membership>, Option<String>)> {
    let settings = |rank: usize| match &infos[rank] {
        None => "no erasure coding (ec_interval = -1)".to_owned(),
        Some(ProcessInfo { settings: s, .. }) => format!(
            "ec_interval = {}, ec_group = {}, ec_parity = {}",
            s.interval, s.group, s.parities
        ),
    };
    let of = |rank: usize| infos[rank].as_ref().map(|info| info.settings);
    if let Some(other) = (1..infos.len()).find(|&rank| of(rank) != of(0)) {
        return Err(Error::invalid(format!(
            "the processes are configured differently: rank 0 has {}, rank {other} has {}",
            settings(0),
            settings(other)
        )));
    }
    let Some(Some(ProcessInfo { settings, .. })) = infos.first() else {
        return Ok((None, None));
    };
    let domains: Vec<&str> = infos.iter().flatten().map(|info| info.domain.as_str()).collect();
    let formed = groups::form(&domains, settings.group as usize, settings.parities as usize);
    let number = formed.groups.iter().position(|group| group.contains(&own));
    let place = number.map(|number| in_tree(&formed.groups, number, own));
    Ok((place, formed.warning))
}

/// The first member of each group leads it, and follows the leader of another group.
fn in_tree(groups: &[Vec<u32>], number: usize, own: u32) -> Membership {
    let members = groups[number].clone();
    let at = members.iter().position(|member| *member == own).unwrap_or(0);
    let (leader, followers) = if at > 0 {
        (Some(members[0]), Vec::new())
    } else {
        let above = (number > 0).then(|| groups[(number - 1) / BREADTH][0]);
        let below = (number * BREADTH + 1..=(number + 1) * BREADTH).filter_map(|n| groups.get(n));
        let followers = members[1..].iter().copied().chain(below.map(|group| group[0]));
        (above, followers.collect())
    };
    Membership { members, own: at, leader, followers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn info(host: &str) -> ProcessInfo {
        ProcessInfo {
            settings: ErasureSettings { interval: 0, group: 4, parities: 1 },
            host: host.to_owned(),
            loopback: host.to_owned(),
            domain: host.to_owned(),
            addresses: ["10.0.0.1:7", "127.0.0.1:7"].map(|a| a.parse().unwrap()).to_vec(),
            token: [0; 32],
        }
    }

    #[test]
    fn everybody_has_one_leader_and_is_followed_by_those_it_leads() {
        let infos: Vec<_> = (0..200).map(|rank| Some(info(&format!("h{rank}")))).collect();
        let places: Vec<Membership> =
            (0..200).map(|own| membership_of(&infos, own).unwrap().0.unwrap()).collect();
        let mut leaders = BTreeMap::new();
        for (rank, place) in places.iter().enumerate() {
            assert_eq!(place.members[place.own], rank as u32);
            assert!(place.followers.len() <= 3 + BREADTH);
            for follower in &place.followers {
                assert_eq!(leaders.insert(*follower, rank as u32), None, "{follower} twice");
            }
        }
        for (rank, place) in places.iter().enumerate() {
            assert_eq!(leaders.get(&(rank as u32)), place.leader.as_ref());
        }
        assert_eq!(leaders.len(), 199, "all but one follow");
    }

    #[test]
    fn settings_must_agree() {
        let mut other = info("b");
        other.settings.parities = 2;
        let error = membership_of(&[Some(info("a")), Some(other)], 0).unwrap_err().to_string();
        assert!(error.contains("ec_parity = 1") && error.contains("rank 1 has"), "{error}");
        let error = membership_of(&[Some(info("a")), None], 0).unwrap_err().to_string();
        assert!(error.contains("ec_interval = -1"), "{error}");
        assert_eq!(membership_of(&[None, None], 1).unwrap(), (None, None));
        assert!(membership_of(&[Some(info("a"))], 0).unwrap().1.unwrap().contains("too few"));
    }

    #[test]
    fn the_loopback_is_for_neighbours() {
        let ports = |from: &str| {
            let addresses = info("a").addresses_from(&info(from));
            addresses.iter().map(|a| a.ip().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ports("a"), ["127.0.0.1", "10.0.0.1"]);
        assert_eq!(ports("b"), ["10.0.0.1"]);
    }
}
