//! What is read from texts and from the environment, and what is refused.

use super::*;
use proptest::prelude::*;
use std::io::Write as _;

const LEAST: &str = "mode = async\nscratch = /tmp/s\n";

fn text_and_env(text: &str, env: &[(&str, &str)]) -> Result<(Config, Vec<String>)> {
    Config::from_text(text, |name| {
        env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    })
}

fn with(more: &str) -> Result<(Config, Vec<String>)> {
    text_and_env(&format!("{LEAST}{more}\n"), &[])
}

#[test]
fn defaults() {
    let (config, warnings) = with("").unwrap();
    assert_eq!(
        config,
        Config {
            mode: Mode::Async,
            scratch: Some("/tmp/s".into()),
            persistent: None,
            gpu_cache_size: None,
            host_cache_size: None,
            drive: None,
            drive_size: None,
            compressed_cache_size: None,
            gpu_chunk_size: None,
            ephemeral: false,
            hand_over: None,
            hand_over_time: 600,
            restore_order: RestoreOrder::Reverse,
            newest_by: NewestBy::Number,
            touch: Touch::Auto,
            touch_threads: 0,
            touch_method: TouchMeans::Auto,
            huge_pages: true,
            pin: Pin::Chunked,
            pin_chunk_size: 8 << 20,
            trace: None,
            threaded: false,
            watchdog_interval: 5,
            max_parallelism: 0,
            log_prefix: None,
            run_directory: None,
            sync_files: SyncFiles::Data,
            persistent_interval: Some(0),
            max_versions: 0,
            scratch_versions: 0,
            proof: ProofPolicy::Check,
            chksum: false,
            meta: None,
            compress: Compress::None,
            incremental: false,
            verify_captures: false,
            incremental_chain: 8,
            aggregated: false,
            ec_interval: None,
            ec_group: 8,
            ec_parity: 1,
            failure_domain: None,
            host_capture: Some(Capture::Copy),
            stream_ordered: false,
            print_errors: PrintErrors::Auto,
            file: None,
        }
    );
    assert!(warnings.is_empty(), "{warnings:?}");
}

/// Catches a value that goes to another key. Keys that exclude these have tests below.
#[test]
fn what_is_given_is_read() {
    let (config, warnings) = text_and_env(
        "mode = sync\nscratch = /s\npersistent = /p\ngpu_cache_size = 0.5..2\n\
         host_cache_size = 12\ndrive = /d\ndrive_size = 3T\ngpu_chunk_size = 2M\nephemeral = yes\nhand_over_time = 90\nrestore_order = random\n\
         newest_by = time\n\
         touch = concurrent\ntouch_threads = 16\ntouch_method = populate\nhuge_pages = off\n\
         pin = chunked\npin_chunk_size = 1G\ntrace = /t.json\nthreaded = true\n\
         watchdog_interval = 7\nmax_parallelism = 4\nlog_prefix = /l\nrun_directory = /r\nsync_files = full\n\
         persistent_interval = -1\nincremental_chain = 5\nmax_versions = 3\nscratch_versions = 2\nproof = accept\nchksum = true\n\
         meta = /m\naggregated = true\nec_interval = 60\nec_group = 4\n\
         ec_parity = 3\nfailure_domain = rack 7\nprint_errors = no\nhost_capture = fork\nstream_ordered = yes\n",
        &[],
    )
    .unwrap();
    assert_eq!(
        config,
        Config {
            mode: Mode::Sync,
            scratch: Some("/s".into()),
            persistent: Some("/p".into()),
            gpu_cache_size: Some(GrowingSize { first: 512 << 20, most: 2 << 30 }),
            host_cache_size: Some(12 << 30),
            drive: Some("/d".into()),
            drive_size: Some(3 << 40),
            compressed_cache_size: None,
            gpu_chunk_size: Some(2 << 20),
            ephemeral: true,
            hand_over: None,
            hand_over_time: 90,
            restore_order: RestoreOrder::Random,
            newest_by: NewestBy::Time,
            touch: Touch::Concurrent,
            touch_threads: 16,
            touch_method: TouchMeans::Populate,
            huge_pages: false,
            pin: Pin::Chunked,
            pin_chunk_size: 1 << 30,
            trace: Some("/t.json".into()),
            threaded: true,
            watchdog_interval: 7,
            max_parallelism: 4,
            log_prefix: Some("/l".into()),
            run_directory: Some("/r".into()),
            sync_files: SyncFiles::Full,
            persistent_interval: None,
            max_versions: 3,
            scratch_versions: 2,
            proof: ProofPolicy::Accept,
            chksum: true,
            meta: Some("/m".into()),
            compress: Compress::None,
            incremental: false,
            verify_captures: false,
            incremental_chain: 5,
            aggregated: true,
            ec_interval: Some(60),
            ec_group: 4,
            ec_parity: 3,
            failure_domain: Some("rack 7".into()),
            host_capture: Some(Capture::Fork),
            stream_ordered: true,
            print_errors: PrintErrors::Never,
            file: None,
        }
    );
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn bad_values_name_key_value_place_and_what_is_allowed() {
    for (key, value, allowed) in [
        ("mode", "asynk", "sync, async"),
        ("ec_interval", "-2", "from -1 (never)"),
        ("ec_group", "1", "from 2 to 64"),
        ("ec_parity", "0", "from 1 to 7"),
        ("ec_parity", "8", "from 1 to 7"),
        ("scratch", "~/scratch", "written out"),
        ("persistent", "\"/p\"", "without quotes"),
        ("gpu_cache_size", "-1", "a number of GiB"),
        ("gpu_cache_size", "40G..4G", "not the smaller one"),
        ("gpu_cache_size", "4M...40M", "two points between them"),
        ("host_cache_size", "lots", "a number of GiB"),
        ("gpu_chunk_size", "0", "more than 0"),
        ("ephemeral", "maybe", "true or false"),
        ("restore_order", "backwards", "reverse, same, random"),
        ("touch", "none", "auto, sequential, concurrent"),
        ("touch_threads", "257", "from 0 to 256"),
        ("touch_method", "read", "auto, populate, write"),
        ("huge_pages", "2", "true or false"),
        ("pin", "both", "serial, parallel, off, chunked"),
        ("pin_chunk_size", "2G", "at most 1024 MiB"),
        ("aggregated", "perhaps", "true or false"),
        ("compress", "gzip", "none, lz4, zstd"),
        ("compress", "zstd:23", "from 1 to 22"),
        ("compress", "lz4:3", "none, lz4, zstd"),
        ("max_parallelism", "1025", "from 0 to 1024"),
        ("sync_files", "all", "none, data, full"),
        ("persistent_interval", "-2", "from -1 (never)"),
        ("incremental_chain", "0", "from 1 to 64"),
        ("incremental_chain", "65", "from 1 to 64"),
        ("incremental", "changes", "true"),
        ("max_versions", "-1", "a whole number"),
        ("scratch_versions", "2.5", "a whole number"),
        ("newest_by", "date", "number, time"),
        ("proof", "yes", "check, accept, off"),
        ("chksum", "sha256", "true or false"),
        ("print_errors", "never", "auto, true or false"),
        ("host_capture", "cow", "auto, copy, protect, fork"),
    ] {
        let from_file = with(&format!("{key} = {value}")).unwrap_err();
        assert_eq!(from_file.kind(), ErrorKind::Invalid);
        let variable = format!("VELOC_{}", key.to_ascii_uppercase());
        let from_env = text_and_env(LEAST, &[(variable.as_str(), value)]).unwrap_err();
        for (message, place) in
            [(from_file.to_string(), "configuration"), (from_env.to_string(), &variable)]
        {
            for part in [place, &format!("{key} = {value:?}"), allowed] {
                assert!(message.contains(part), "{message:?} lacks {part:?}");
            }
        }
    }
}

#[test]
fn missing_keys() {
    let message = text_and_env("scratch = /s", &[]).unwrap_err().to_string();
    assert!(message.contains("mode is missing"), "{message}");
    let message = text_and_env("mode = sync", &[]).unwrap_err().to_string();
    assert!(message.contains("scratch is missing"), "{message}");
    let (config, _) = text_and_env("mode = sync\nephemeral = true", &[]).unwrap();
    assert_eq!(config.scratch, None);
}

#[test]
fn the_environment_overrides() {
    let env = [("VELOC_MODE", "sync"), ("VELOC_PIN", "off"), ("VELOC_CHKSUM", "false")];
    let (config, _) = text_and_env(&format!("{LEAST}chksum = true"), &env).unwrap();
    assert_eq!((config.mode, config.pin), (Mode::Sync, Pin::Off));
}

/// Catches an empty value or variable that counts as given, or that hides the value behind it.
#[test]
fn what_is_empty_is_not_given() {
    for key in KEYS.iter().filter(|key| key.name != "mode" && key.name != "scratch") {
        let (config, warnings) = with(&format!("{} =", key.name)).unwrap();
        assert_eq!(config, with("").unwrap().0, "{}", key.name);
        assert!(warnings.is_empty(), "{warnings:?}");
    }
    let (config, _) = with("persistent = /p\npersistent = ; none\nscratch =").unwrap();
    assert_eq!((config.scratch, config.persistent), (Some("/tmp/s".into()), Some("/p".into())));
    let env = [("VELOC_SCRATCH", ""), ("VELOC_PIN", " \t"), ("VELOC_AXL_TYPE", "")];
    let (config, warnings) = text_and_env(&format!("{LEAST}pin = off"), &env).unwrap();
    assert_eq!((config.scratch, config.pin), (Some("/tmp/s".into()), Pin::Off));
    assert!(warnings.is_empty(), "{warnings:?}");
    let message = text_and_env("mode =\nscratch = /s", &[]).unwrap_err().to_string();
    assert!(message.contains("mode is missing"), "{message}");
}

/// Catches a directory that is named after a comment, and a path that VELOC reads differently
/// without a warning.
#[test]
fn paths_end_where_a_comment_begins() {
    let text = "mode = sync # at once\nscratch = /tmp/s   # node-local\n";
    let (config, warnings) = text_and_env(text, &[]).unwrap();
    assert_eq!((config.mode, config.scratch), (Mode::Sync, Some("/tmp/s".into())));
    assert!(warnings.is_empty(), "{warnings:?}");
    let (config, warnings) = with("persistent = /p/my files\nfailure_domain = rack 7").unwrap();
    assert_eq!(config.persistent, Some("/p/my files".into()));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["persistent = /p/my files", "the first word, /p/my"] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
}

#[test]
fn keys_without_effect_are_warnings() {
    for key in KEYS {
        let Role::NoEffect { instead } = key.role else {
            continue;
        };
        let (_, warnings) = with(&format!("{} = 1", key.name)).unwrap();
        assert_eq!(warnings.len(), 1, "{}", key.name);
        assert!(warnings[0].contains(key.name) && warnings[0].contains("no effect"));
        if let Some(other) = instead {
            assert!(warnings[0].contains(other), "{}", warnings[0]);
        }
    }
}

/// Catches a warning for each of the keys with which the prototype's programs compress.
#[test]
fn keys_with_one_replacement_are_one_warning() {
    let keys = "compressor_name = nvcomp\ncompressor_algo = Bitcomp_1\nstop_ckpt_on_pf = true\n\
                compress_mode = -2\ncompress_always = no\nforce_no_compress = true\n";
    let (_, warnings) = with(&format!("{keys}score_eviction = true")).unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let compress =
        warnings.iter().find(|warning| warning.contains("use compress instead")).unwrap();
    for key in keys.lines().filter_map(|line| line.split(' ').next()) {
        assert!(compress.contains(key), "{compress}");
    }
}

#[test]
fn what_would_change_results_is_refused() {
    for (line, accepted) in
        [("axl_type = pthread", false), ("daos_pool = p", false), ("daos_cont = c", false)]
    {
        match with(line) {
            Ok((_, warnings)) => assert!(accepted && warnings.is_empty(), "{line}"),
            Err(e) => {
                assert!(!accepted, "{line}: {e}");
                assert!(e.to_string().contains(line), "{e}");
            }
        }
    }
}

#[test]
fn what_is_known_of_files_needs_a_directory() {
    for key in ["chksum", "aggregated"] {
        let message = with(&format!("{key} = true")).unwrap_err().to_string();
        assert!(message.contains(key) && message.contains("meta"), "{message}");
        assert!(with(&format!("{key} = true\nmeta = /m")).is_ok());
    }
}

#[test]
fn compressing_needs_workers_and_files_of_their_own() {
    for (text, expected) in [
        ("none", Compress::None),
        ("lz4", Compress::Lz4),
        ("zstd", Compress::Zstd(3)),
        ("ZSTD:19", Compress::Zstd(19)),
    ] {
        assert_eq!(with(&format!("mode = async\ncompress = {text}")).unwrap().0.compress, expected);
    }
    for other in ["mode = sync", "mode = async\naggregated = true\nmeta = /m"] {
        let message = with(&format!("compress = lz4\n{other}")).unwrap_err().to_string();
        assert!(message.contains("compress"), "{message}");
        assert!(with(&format!("compress = none\n{other}")).is_ok());
    }
}

#[test]
fn changes_alone_need_files_below_them() {
    let with = |more: &str| with(&format!("mode = async\nincremental = true\n{more}"));
    assert!(with("persistent = /p\npersistent_interval = -1").unwrap().0.incremental);
    assert!(with("persistent = /p\ncompress = lz4").is_ok());
    let intervals = ["persistent = /p\npersistent_interval = 9", "ec_interval = 9"];
    for other in ["ephemeral = true", "hand_over = a"].into_iter().chain(intervals) {
        let message = with(other).unwrap_err().to_string();
        let key = other.split(" = ").next().unwrap_or_default();
        let key = if key == "persistent" { "persistent_interval" } else { key };
        assert!(message.contains("incremental = true") && message.contains(key), "{message}");
    }
}

/// Catches a level whose bytes nobody reads again, two of them, and a drive without a size.
#[test]
fn a_drive_or_compressed_memory_is_below_the_host_cache_of_an_ephemeral_job() {
    let with = |more: &str| text_and_env(&format!("mode = async\nephemeral = true\n{more}"), &[]);
    let whole = "drive = /d\ndrive_size = 4G\n";
    assert_eq!(with(whole).unwrap().0.drive_size, Some(4 << 30));
    assert!(with(&format!("{whole}scratch = /s")).is_ok());
    let compressed = with("compressed_cache_size = 3G").unwrap().0.compressed_cache_size;
    assert_eq!(compressed, Some(3 << 30));
    for (text, why) in [
        ("drive = /d", "drive needs drive_size"),
        ("drive_size = 1G", "drive_size needs drive"),
        ("drive = /d\ndrive_size = 0", "a size of more than 0"),
        (&format!("{whole}ephemeral = false\nscratch = /s"), "needs ephemeral = true"),
        (&format!("{whole}hand_over = a"), "does not go with hand_over"),
        (&format!("{whole}host_cache_size = 0"), "does not go with host_cache_size = 0"),
        (
            &format!("{whole}compressed_cache_size = 1G"),
            "only one of them can be the level below the host cache",
        ),
        ("compressed_cache_size = 0", "a size of more than 0"),
        (
            "compressed_cache_size = 1G\nhand_over = a",
            "compressed_cache_size does not go with hand_over",
        ),
    ] {
        let message = with(text).unwrap_err().to_string();
        assert!(message.contains(why), "{text}: {message}");
    }
}

#[test]
fn unknown_keys_and_sections_are_warnings() {
    let (_, warnings) = with("scrach = /tmp\nwhatever = 7\nmode = async\n[gpu]\nx = 1").unwrap();
    let expected =
        ["section [gpu]", "was scratch meant?", "whatever is ignored", "mode is given more"];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, part) in warnings.iter().zip(expected) {
        assert!(warning.contains(part), "{warning:?} lacks {part:?}");
    }
}

/// Catches a directory `$USER` that nobody hears of, and a warning about anything else.
#[test]
fn variables_in_paths_are_warnings() {
    let (config, warnings) = with("persistent = /p/$USER\nfailure_domain = a$b").unwrap();
    assert_eq!(config.persistent, Some("/p/$USER".into()));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("persistent = /p/$USER"), "{warnings:?}");
}

#[test]
fn files() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(LEAST.as_bytes()).unwrap();
    assert_eq!(Config::load(file.path()).unwrap().mode, Mode::Async);

    file.write_all(b"nonsense\n").unwrap();
    let message = Config::load(file.path()).unwrap_err().to_string();
    assert!(message.contains(&file.path().display().to_string()), "{message}");
    assert!(message.contains("line 3"), "{message}");

    file.write_all(b"a = \xff\n").unwrap();
    let message = Config::load(file.path()).unwrap_err().to_string();
    assert!(message.contains("line 4") && message.contains("UTF-8"), "{message}");

    let missing = Config::load(Path::new("/nonexistent/veloc.cfg")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::System);
    assert!(missing.to_string().contains("/nonexistent/veloc.cfg"), "{missing}");
}

proptest! {
    #[test]
    fn any_value_is_answered(index in 0..KEYS.len(), value in "[!-~ ]{0,16}") {
        let key = &KEYS[index];
        match with(&format!("{} = {value}", key.name)) {
            Ok((config, _)) => {
                prop_assert!(config.gpu_chunk_size != Some(0));
                prop_assert!((1..=LARGEST_PIN_CHUNK).contains(&config.pin_chunk_size));
                prop_assert!(config.touch_threads <= MOST_TOUCH_THREADS);
                prop_assert!(config.scratch.is_some() || config.ephemeral);
            }
            Err(e) => prop_assert!(e.to_string().contains(key.name), "{}", e),
        }
    }
}

/// Catches a read that waits for the other end of a pipe for ever, or never ends.
#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.cfg");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a null byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let long = folder.path().join("long.cfg");
    std::fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
    for path in [&*pipe, &*long, folder.path(), Path::new("/dev/zero")] {
        let error = Config::load(path).unwrap_err().to_string();
        assert!(error.contains(&format!("configuration file {}", path.display())), "{error}");
    }
}

#[test]
fn memory_that_is_handed_over() {
    let (config, _) = with("hand_over = shot-7\nhost_cache_size = 1").unwrap();
    assert_eq!(config.hand_over.as_deref(), Some("shot-7"));
    let memory_alone =
        text_and_env("mode = async\nephemeral = true\nhand_over = a", &[]).unwrap().0;
    assert!(config.outlives_application() && memory_alone.outlives_application());
    for (wrong, words) in [
        ("mode = sync", ["hand_over = a", "mode = sync"]),
        ("threaded = true", ["hand_over = a", "threaded = true"]),
        ("host_cache_size = 0", ["hand_over = a", "host_cache_size = 0"]),
        ("ephemeral = true", ["hand_over = a", "ephemeral = true with scratch"]),
        ("hand_over = a b", ["hand_over = \"a b\"", "letters"]),
        ("hand_over_time = 0", ["hand_over_time", "from 1 to 86400"]),
    ] {
        let error = with(&format!("hand_over = a\n{wrong}")).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{wrong}: {error}");
    }
}
