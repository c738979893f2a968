//! Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.

pub mod error;
