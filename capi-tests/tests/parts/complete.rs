//! Whether the library has every function of MPI's that a part may call.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use capi_tests::job::Job;
use capi_tests::mpi::Mpi;
use capi_tests::program::{parts_program, staged};
use xtask::project::output;

use crate::under::{every_mpi, run, Library};

/// Functions that neither communicate nor complete anything, so that a replay may call them again;
/// `*` stands for any end of a name.
const LOCAL: &[&str] = &[
    "MPI_Abort",
    "MPI_Add_error_*",
    "MPI_Address",
    "MPI_Aint_*",
    "MPI_Alloc_mem",
    "MPI_Attr_delete",
    "MPI_Attr_get",
    "MPI_Buffer_attach*",
    "MPI_Buffer_detach*",
    "MPI_Cart_coords",
    "MPI_Cart_get",
    "MPI_Cart_map",
    "MPI_Cart_rank",
    "MPI_Cart_shift",
    "MPI_Cartdim_get",
    "MPI_Comm_call_errhandler",
    "MPI_Comm_compare",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_delete_attr",
    "MPI_Comm_get_*",
    "MPI_Comm_group",
    "MPI_Comm_rank",
    "MPI_Comm_remote_*",
    "MPI_Comm_set_errhandler",
    "MPI_Comm_set_name",
    "MPI_Comm_size",
    "MPI_Comm_test_inter",
    "MPI_Dims_create",
    "MPI_Dist_graph_neighbors*",
    "MPI_Errhandler_*",
    "MPI_Error_*",
    "MPI_File_call_errhandler",
    "MPI_File_create_errhandler",
    "MPI_File_get_errhandler",
    "MPI_File_get_group",
    "MPI_File_get_info",
    "MPI_File_set_errhandler",
    "MPI_Finalized",
    "MPI_Free_mem",
    "MPI_Get_address",
    "MPI_Get_count*",
    "MPI_Get_elements*",
    "MPI_Get_library_version",
    "MPI_Get_processor_name",
    "MPI_Get_version",
    "MPI_Graph_get",
    "MPI_Graph_map",
    "MPI_Graph_neighbors*",
    "MPI_Graphdims_get",
    "MPI_Group_*",
    "MPI_Info_*",
    "MPI_Initialized",
    "MPI_Is_thread_main",
    "MPI_Keyval_create",
    "MPI_Op_*",
    "MPI_Pack*",
    "MPI_Pcontrol",
    "MPI_Query_thread",
    "MPI_Reduce_local*",
    "MPI_Register_datarep*",
    "MPI_Session_c*",
    "MPI_Session_get_*",
    "MPI_Session_set_errhandler",
    "MPI_Status_*",
    "MPI_T_*",
    "MPI_Test_cancelled",
    "MPI_Topo_test",
    "MPI_Type_*",
    "MPI_Unpack*",
    "MPI_Win_c*_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_delete_attr",
    "MPI_Win_free_keyval",
    "MPI_Win_get_*",
    "MPI_Win_set_attr",
    "MPI_Win_set_errhandler",
    "MPI_Win_set_name",
    "MPI_Wtick",
    "MPI_Wtime",
    // MPI's own extensions: queries about failures and devices; kinds of generalized requests.
    "MPIX_Comm_failure_*",
    "MPIX_Comm_revoke",
    "MPIX_Delete_error_*",
    "MPIX_GPU_query_support",
    "MPIX_Grequest_*",
    "MPIX_Query_*",
];

/// Functions that cannot be replayed.
const UNSUPPORTED: &[&str] = &[
    "MPI_Accumulate*",
    "MPI_Close_port",
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_create_from_group",
    "MPI_Comm_idup*",
    "MPI_Comm_join",
    "MPI_Comm_spawn*",
    "MPI_Compare_and_swap",
    "MPI_Fetch_and_op",
    "MPI_File_*",
    "MPI_Get",
    "MPI_Get_accumulate*",
    "MPI_Get_c",
    "MPI_Intercomm_create_from_groups",
    "MPI_Lookup_name",
    "MPI_Open_port",
    "MPI_Parrived",
    "MPI_Pready*",
    "MPI_Precv_init",
    "MPI_Psend_init",
    "MPI_Publish_name",
    "MPI_Put*",
    "MPI_Raccumulate*",
    "MPI_Rget*",
    "MPI_Rput*",
    "MPI_Session_finalize",
    "MPI_Session_init",
    "MPI_Unpublish_name",
    "MPI_Win_*",
    "MPIX_*",
];

fn is_one_of(name: &str, patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| match pattern.split_once('*') {
        Some((begin, end)) => {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        }
        None => name == *pattern,
    })
}

/// Whether a function is a persistent collective call, which cannot be replayed.
fn is_persistent_collective(name: &str) -> bool {
    let base = name.strip_suffix("_c").unwrap_or(name);
    let is_message = |way: &str| base.ends_with(&format!("{way}_init"));
    base.ends_with("_init") && !is_message("send") && !is_message("Send") && !is_message("Recv")
}

/// The functions that an object offers, by these beginnings of their names, without the beginning.
fn offered(object: &Path, beginning: &str) -> BTreeSet<String> {
    let text = output(Command::new("nm").args(["-D", "--defined-only"]).arg(object)).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').nth(2)?.strip_prefix(beginning));
    // Behind some names is a version.
    names.filter_map(|name| Some(name.split('@').next()?.to_owned())).collect()
}

/// All functions of an MPI library but those that translate handles.
fn functions(mpi: &Mpi, program: &Path) -> BTreeSet<String> {
    let loaded = output(Command::new("ldd").arg(program)).unwrap();
    let line = loaded.lines().find(|line| line.trim().starts_with(mpi.library));
    let path = line.and_then(|line| line.split_whitespace().nth(2)).expect("a library of MPI's");
    let translates = |name: &str| {
        let ends = ["_f2c", "_c2f", "_f082c", "_c2f08", "_f082f", "_f2f08"];
        ends.iter().any(|end| name.ends_with(end))
    };
    let all = offered(Path::new(path), "P").into_iter();
    all.filter(|name| name.starts_with("MPI") && !translates(name)).collect()
}

/// Catches a function that the library does not intercept: a replay would call it again, or would
/// not know what it has completed; and an unsupported function that is not refused by name.
#[test]
fn every_function_is_taken_or_local_and_all_that_is_unsupported_is_refused() {
    let own = offered(&staged().message_log(), "");
    let is_unsupported = |name: &&String| {
        is_one_of(name, UNSUPPORTED) && !is_one_of(name, LOCAL) || is_persistent_collective(name)
    };
    for mpi in every_mpi() {
        if mpi.start(1).is_none() {
            continue;
        }
        let all = functions(mpi, &parts_program(mpi.compiler, "unsupported", false));
        assert!(all.len() > 300, "{all:?}");
        let passed_by: Vec<&String> =
            all.iter().filter(|name| !own.contains(*name) && !is_one_of(name, LOCAL)).collect();
        assert!(passed_by.is_empty(), "{}: {passed_by:?}", mpi.library);
        // MPI_File_open writes to its last argument.
        let refused = all.iter().filter(is_unsupported).filter(|name| *name != "MPI_File_open");
        let refused: Vec<&str> = refused.map(String::as_str).collect();
        assert!(refused.len() > 100, "{refused:?}");
        let job = Job::new("");
        let names = job.path("names");
        std::fs::write(&names, refused.join("\n")).unwrap();
        let names = names.display().to_string();
        let Some(run) = run(mpi, Library::Preloaded, 1, "unsupported", &names) else { continue };
        assert_eq!(run.succeed().figure("refused"), refused.len() as u64);
    }
}
