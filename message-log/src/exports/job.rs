//! The end of MPI.

#![allow(non_snake_case)] // As MPI names them.

exports! {
    fn MPI_Finalize() outside |_call, real| {
        crate::state::close();
        real()
    }, inside |_call, real| {
        crate::state::close();
        real()
    };
}
