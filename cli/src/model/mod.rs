//! A model of a node: the library's decisions in virtual time, against what memory and links cost.

mod cached;
mod flow;
mod machine;
mod node;
mod scenario;
mod simple;
mod simulation;
#[cfg(test)]
mod tests;
mod turns;
