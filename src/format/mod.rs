//! Upstream's file format: what the bytes and the names of checkpoint files mean. Bytes in, bytes
//! out; nothing here opens a file.

pub mod header;
pub mod names;
