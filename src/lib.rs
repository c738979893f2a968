//! Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC: the C functions, which
//! check their arguments and call [`client`]. `docs/architecture.md` draws the house.

#![deny(clippy::disallowed_methods)]

pub mod capi;
