//! Forms groups of processes that are unlikely to be lost together.

use std::collections::BTreeMap;

/// The groups of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The members of each group, ascending.
    pub groups: Vec<Vec<u32>>,
    /// A warning about losses that the groups do not protect against.
    pub warning: Option<String>,
}

/// Forms groups of about `size` processes, each larger than `parities`. `domains` has the failure domain
/// of each process. Members of one domain are spread over the groups; if possible, no group has more of
/// them than may be lost, even if groups become smaller.
pub(crate) fn form(domains: &[&str], size: usize, parities: usize) -> Groups {
    let count = domains.len();
    if count <= parities {
        return Groups {
            groups: Vec::new(),
            warning: Some(format!(
                "no erasure coding: {count} processes are too few for ec_parity = {parities}"
            )),
        };
    }
    let mut of_domain: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, domain) in domains.iter().enumerate() {
        of_domain.entry(domain).or_default().push(rank as u32);
    }
    let largest = of_domain.values().map(Vec::len).max().unwrap_or(0);
    let most = count / (parities + 1);
    let wanted = count.div_ceil(size);
    // Enough groups to spread the largest domain thinly, if there can be that many.
    let apart = largest.div_ceil(parities);
    let number = if apart <= most { wanted.max(apart) } else { wanted }.min(most);
    let mut groups = vec![Vec::new(); number];
    // Deals out domain by domain, so that neighbours in a domain go to different groups.
    for (at, rank) in of_domain.values().flatten().enumerate() {
        groups[at % number].push(*rank);
    }
    for group in &mut groups {
        group.sort_unstable();
    }
    let together = largest.div_ceil(number);
    let warning = (together > parities).then(|| {
        let domain = of_domain.iter().find(|(_, ranks)| ranks.len() == largest);
        format!(
            "{largest} of {count} processes are in the failure domain \"{}\" (failure_domain), so \
             that up to {together} members of a group are lost with it, and only {parities} can be \
             rebuilt (ec_parity): single scratch directories are protected, this domain is not",
            domain.map_or("", |(name, _)| name)
        )
    });
    Groups { groups, warning }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LARGEST_GROUP, MOST_MEMBERS};
    use proptest::prelude::*;

    fn on_hosts(per_host: &[usize]) -> Vec<String> {
        let host = |(host, count): (usize, &usize)| vec![format!("h{host}"); *count];
        per_host.iter().enumerate().flat_map(host).collect()
    }

    fn formed(domains: &[String], size: usize, parities: usize) -> Groups {
        let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
        form(&domains, size, parities)
    }

    #[test]
    fn hosts_are_spread() {
        // Two hosts of four processes: only pairs survive the loss of a host.
        let two = formed(&on_hosts(&[4, 4]), 8, 1);
        assert_eq!(two.groups, [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(two.warning, None);
        // With two parities, groups of four do.
        assert_eq!(formed(&on_hosts(&[4, 4]), 8, 2).groups, [[0, 2, 4, 6], [1, 3, 5, 7]]);
        // Eight hosts of one process: one group.
        assert_eq!(formed(&on_hosts(&[1; 8]), 8, 1).groups.len(), 1);
    }

    #[test]
    fn no_group_is_larger_than_an_encoding_can_say() {
        for count in 64..300 {
            let made = formed(&on_hosts(&[count]), LARGEST_GROUP, LARGEST_GROUP - 1);
            assert!(made.groups.iter().all(|group| group.len() <= MOST_MEMBERS), "{count}");
        }
    }

    #[test]
    fn one_host_is_said_to_be_unprotected() {
        let one = formed(&on_hosts(&[4]), 8, 1);
        assert_eq!(one.groups, [[0, 1, 2, 3]]);
        let warning = one.warning.unwrap();
        assert!(warning.contains("\"h0\"") && warning.contains("4 of 4"), "{warning}");
        let lone = formed(&on_hosts(&[1]), 8, 1);
        assert!(lone.groups.is_empty() && lone.warning.unwrap().contains("too few"));
    }

    proptest! {
        #[test]
        fn groups_are_fair(
            hosts in prop::collection::vec(1..9usize, 1..12), size in 2..10usize, parities in 1..5usize,
        ) {
            let domains = on_hosts(&hosts);
            let made = formed(&domains, size, parities);
            if domains.len() <= parities {
                prop_assert!(made.groups.is_empty() && made.warning.is_some());
                return Ok(());
            }
            let mut all: Vec<u32> = made.groups.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..domains.len() as u32).collect::<Vec<_>>());
            let lens: Vec<usize> = made.groups.iter().map(Vec::len).collect();
            let (least, most) = (*lens.iter().min().unwrap(), *lens.iter().max().unwrap());
            prop_assert!(least > parities && most - least <= 1);
            prop_assert!(most <= size.max(2 * parities + 1), "{:?}", lens);
            // There is a warning exactly if the loss of one host is too much.
            let together = made.groups.iter().flat_map(|group| {
                (0..hosts.len()).map(|host| {
                    let name = format!("h{host}");
                    group.iter().filter(|rank| domains[**rank as usize] == name).count()
                })
            });
            prop_assert_eq!(made.warning.is_some(), together.max().unwrap() > parities);
        }
    }
}
