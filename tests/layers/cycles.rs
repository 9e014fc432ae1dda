//! Cycles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// The sets of nodes, each with more than one, of which every node reaches every other.
pub(crate) fn of<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<Vec<&'a str>> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        graph.entry(from).or_default().insert(to);
        graph.entry(to).or_default();
    }
    let reached: BTreeMap<_, _> = graph
        .keys()
        .map(|node| (*node, reachable(&graph, node)))
        .collect();
    let cycle = |node: &&'a str| -> Vec<&'a str> {
        let others = reached[node].iter().copied();
        others
            .filter(|other| reached[other].contains(node))
            .collect()
    };
    let cycles = graph.keys().map(cycle);
    cycles.filter(|cycle| cycle.len() > 1).collect()
}

/// The nodes that one or more edges lead to.
fn reachable<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = graph[from].iter().copied().collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(&graph[node]);
        }
    }
    reached
}
