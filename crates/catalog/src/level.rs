//! Which levels a job has: an ordered table, the fastest first. The catalog goes by this table; the engine
//! has a store (`levels/store.rs`) for each row of memory.

/// The allocation unit of a node's levels of memory, in bytes: what the device and direct writes are quick with.
pub const GRANULE: u64 = 512;

/// The most levels of memory that a table may have.
pub const MOST: usize = 3;

/// A level of memory: its row in the job's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The device cache.
    pub const DEVICE: Level = Level(0);
    /// The host buffer.
    pub const HOST: Level = Level(1);

    /// The level of this row, which is less than [`MOST`].
    pub const fn new(row: usize) -> Level {
        assert!(row < MOST, "more levels of memory than a table has");
        Level(row as u8)
    }

    /// Its row.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The properties of a level of memory: a row of the table.
#[derive(Clone, Debug)]
pub struct LevelSpec {
    /// Its name in messages.
    pub name: &'static str,
    /// The configuration key of its size.
    pub key: &'static str,
    /// Bytes that it has, or will have once all of it is there.
    pub capacity: u64,
    /// Its allocation unit in bytes.
    pub granule: u64,
    /// Which parts of a checkpoint are captured into it, by [`Part`](crate::region::Part), if they fit. A
    /// part is never in a level above the first that captures it.
    pub captures: [bool; 2],
    /// Its bytes come by and by: until all are there, a capture waits for them and evicts nothing.
    pub grows: bool,
    /// Files are written from it and read into it, deferred captures arrive in it, and the backend
    /// finds in it what a killed process has left. One row has this.
    pub staging: bool,
    /// Its store compresses: how much room bytes take is known once they are written. Nothing is captured
    /// into such a level, and it is not the staging level.
    pub compresses: bool,
    /// A drive. Bytes come to it so slowly that a copy which was consumed is not flushed to it: a job without files
    /// discards that in the level above, also for what is fetched ahead. Room in which a write has failed is not used again.
    pub drive: bool,
}

impl LevelSpec {
    /// The row of the device cache, of which nothing is there yet.
    pub fn device(capacity: u64, granule: u64) -> LevelSpec {
        LevelSpec {
            name: "device cache",
            key: "gpu_cache_size",
            capacity,
            granule,
            captures: [true, false],
            grows: true,
            staging: false,
            compresses: false,
            drive: false,
        }
    }

    /// The row of the host buffer.
    pub fn host(capacity: u64, granule: u64) -> LevelSpec {
        LevelSpec {
            name: "host buffer",
            key: "host_cache_size",
            capacity,
            granule,
            captures: [true, true],
            grows: false,
            staging: true,
            compresses: false,
            drive: false,
        }
    }
}

/// The row of a drive, below the host buffer.
pub fn of_drive(capacity: u64, granule: u64) -> LevelSpec {
    LevelSpec {
        name: "drive",
        key: "drive_size",
        captures: [false; 2],
        staging: false,
        drive: true,
        ..LevelSpec::host(capacity, granule)
    }
}

/// The row of compressed memory, below the host buffer.
pub fn of_compressed(capacity: u64) -> LevelSpec {
    LevelSpec {
        name: "compressed cache",
        key: "compressed_cache_size",
        captures: [false; 2],
        staging: false,
        compresses: true,
        ..LevelSpec::host(capacity, GRANULE)
    }
}

/// The levels of memory of a node: the device cache, of whose bytes none are there yet, and the host buffer.
pub fn of_node(device: u64, host: u64) -> Vec<LevelSpec> {
    vec![LevelSpec::device(device, GRANULE), LevelSpec::host(host, GRANULE)]
}

/// A level of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileLevel {
    /// On the node.
    Scratch = 0,
    /// On the parallel file system.
    Persistent = 1,
}
