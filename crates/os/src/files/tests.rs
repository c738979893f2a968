use super::copy::{copy_by_buffer, copy_in_kernel, COPY_BUFFER};
use super::*;

#[test]
fn bytes_are_written_and_read_at_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let file = create(&path).unwrap();
    write_all_at(&file, b"world", 6, &path).unwrap();
    write_all_at(&file, b"hello ", 0, &path).unwrap();
    assert_eq!(len(&file, &path).unwrap(), 11);

    let mut bytes = [0; 5];
    read_exact_at(&open(&path).unwrap(), &mut bytes, 6, &path).unwrap();
    assert_eq!(&bytes, b"world");
    let error = read_exact_at(&file, &mut bytes, 7, &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");

    // File names are predictable: an existing file is another's.
    let theirs = directory.path().join("theirs");
    fs::hard_link(&path, &theirs).unwrap();
    assert_eq!(len(&create(&path).unwrap(), &path).unwrap(), 0, "a new one");
    assert_eq!(fs::read(theirs).unwrap(), b"hello world");
}

#[test]
fn errors_name_the_path() {
    let nowhere = Path::new("/nonexistent/f");
    assert_eq!(open(nowhere).unwrap_err().kind(), ErrorKind::NotFound);
    for error in [
        open(nowhere).unwrap_err(),
        create(nowhere).unwrap_err(),
        free_space(nowhere).unwrap_err(),
        copy_file(nowhere, Path::new("/tmp/x"), Durability::Unsynced, |_, _| ()).unwrap_err(),
        atomic_replace(nowhere, nowhere, Durability::Unsynced).unwrap_err(),
        sync_directory(nowhere).unwrap_err(),
    ] {
        assert!(error.to_string().contains("/nonexistent/f"), "{error}");
    }
    remove(nowhere).unwrap();
}

#[test]
fn a_full_device_is_no_room() {
    let path = Path::new("/dev/full");
    let Ok(file) = OpenOptions::new().write(true).open(path) else {
        return;
    };
    let error = write_all_at(&file, b"x", 0, path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRoom);
    assert!(error.to_string().contains("/dev/full"), "{error}");
}

#[test]
fn replacing() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("final"), directory.path().join(".tmp"));
    fs::write(&old, "a longer old content").unwrap();
    fs::write(&new, "new").unwrap();
    atomic_replace(&new, &old, Durability::Synced).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "new");
    assert!(!new.exists());
    remove(&old).unwrap();
    assert!(!old.exists());
}

#[test]
fn there_is_free_space() {
    assert!(free_space(Path::new("/")).is_ok());
    assert!(free_space(Path::new("/\0")).is_err());
}

#[test]
fn copies() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    for len in [0, 1, COPY_BUFFER - 1, 3 * COPY_BUFFER + 17] {
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        fs::write(&from, &bytes).unwrap();
        fs::write(&to, "something older").unwrap();
        assert_eq!(copy_file(&from, &to, Durability::Synced, |_, _| ()).unwrap(), len as u64);
        assert_eq!(fs::read(&to).unwrap(), bytes);

        // Without the kernel, and half by each method.
        for in_kernel in [0, len as u64 / 2] {
            let (source, target) = (open(&from).unwrap(), create(&to).unwrap());
            let first = copy_in_kernel(&source, &target, in_kernel).unwrap();
            copy_by_buffer(&source, &target, len as u64 - first).unwrap();
            assert_eq!(fs::read(&to).unwrap(), bytes);
        }
    }
}

#[test]
fn a_copy_that_fails_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to");
    // A directory can be opened, but not read.
    assert!(copy_file(directory.path(), &to, Durability::Unsynced, |_, _| ()).is_err());
    assert!(!to.exists());
}

/// Catches a file that is closed, and loses its lock, when its write errors are queried.
#[test]
fn a_settled_file_stays_open_and_locked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let file = create(&path).unwrap();
    for durability in [Durability::Unsynced, Durability::Synced] {
        write_all_at(&file, b"content", 0, &path).unwrap();
        finish_write(&file, &path, durability).unwrap();
        assert!(is_in_use(&path));
    }
    assert_eq!(fs::read(&path).unwrap(), b"content");
}
