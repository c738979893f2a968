//! The answer of `veloc inspect`. The field names of the JSON are part of the interface.

use std::path::PathBuf;

use anyhow::{ensure, Context as _, Result};
use compression::{AnyHeader, HEADER_LEN};
use errors::ErrorKind;
use format::checksum;
use format::delta::DeltaTable;
use format::proof::Digest;
use os::size;
use serde::Serialize;

use super::subject::{FileDescription, InspectedCheckpoint, InspectedFile};
use crate::output;

/// One rank's checkpoint.
#[derive(Debug, Serialize)]
pub(super) struct InspectReport {
    /// The file that the checkpoint is in.
    #[serde(serialize_with = "output::path")]
    pub path: PathBuf,
    /// The checkpoint's name, if the file's name says it.
    pub name: Option<String>,
    /// The version, if the file's name says it.
    pub version: Option<i32>,
    /// The rank, if the file's name says it.
    pub rank: Option<u32>,
    /// The bytes of the checkpoint with its header.
    pub bytes: u64,
    /// Of a compressed file, the bytes of its content, from whose start the offsets count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_bytes: Option<u64>,
    pub header_bytes: u64,
    /// What it says if it is of an incremental job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incremental: Option<IncrementalReport>,
    /// The regions of the checkpoint, ascending by id.
    pub regions: Vec<RegionReport>,
    /// The checksum, if it was asked for.
    pub checksum: Option<ChecksumReport>,
    /// The proof of the checkpoint, if it has one and it was asked for.
    pub proof: Option<ProofReport>,
}

/// What a file of an incremental job has of its checkpoint.
#[derive(Debug, Serialize)]
pub(super) struct IncrementalReport {
    /// The version that it is a delta of; `None`: it has everything.
    pub delta_of: Option<i32>,
    /// How many versions it needs: that one, and those below it.
    pub below: u64,
    /// The bytes of changes, and in how many regions they are.
    pub changed_bytes: u64,
    pub changed_regions: usize,
}

/// The proof of a checkpoint.
#[derive(Debug, Serialize)]
pub(super) struct ProofReport {
    /// The checkpoint that the proof is of.
    pub of: String,
    /// The digest in the proof.
    pub digest: String,
    /// Whether the bytes have that digest, and the proof is of that checkpoint as far as the file's
    /// name says.
    pub fits: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct RegionReport {
    pub id: i32,
    pub bytes: u64,
    /// The place of the region's first byte in the file, if that has all of the region.
    pub offset: Option<u64>,
    /// How it is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed: Option<CompressedReport>,
    /// Which part of an array it is (`VELOC_Mem_decompose`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// How a region is compressed (`VELOC_Mem_compress`).
#[derive(Debug, Serialize)]
pub(super) struct CompressedReport {
    /// The bytes that it has without.
    pub uncompressed_bytes: u64,
    /// Of an element of the array.
    pub element_bytes: usize,
    /// Whether all bits come back.
    pub lossless: bool,
    #[serde(flatten)]
    pub bounded: Option<BoundedReport>,
}

/// How it is compressed within a bound.
#[derive(Debug, Serialize)]
pub(super) struct BoundedReport {
    /// Of each value.
    pub bits: u32,
    /// The most by which a value may differ from what it was, and the most by which one does.
    pub bound: f64,
    pub error: f64,
    /// Blocks of 64 values that are kept whole.
    pub whole_blocks: u64,
}

/// The checksum of a checkpoint.
#[derive(Debug, Serialize)]
pub(super) struct ChecksumReport {
    /// SHA-256 of the bytes in the file.
    pub sha256: String,
    /// The checksum that was kept when the checkpoint was written, if there is one.
    pub kept: Option<String>,
    /// The file in which the checksum is kept, or would be, if the directory is known.
    #[serde(serialize_with = "output::optional_path")]
    pub kept_in: Option<PathBuf>,
    /// Whether the two checksums are the same, if there are two.
    pub matches: Option<bool>,
}

/// The parts of an aggregated file.
#[derive(Debug, Serialize)]
pub(super) struct PartsReport {
    #[serde(serialize_with = "output::path")]
    pub path: PathBuf,
    pub name: Option<String>,
    pub version: Option<i32>,
    /// The bytes of the file.
    pub bytes: u64,
    /// The parts, by rank.
    pub ranks: Vec<PartReport>,
}

/// One rank's part of an aggregated file.
#[derive(Debug, Serialize)]
pub(super) struct PartReport {
    pub rank: u32,
    /// The place of the part's first byte in the file.
    pub offset: u64,
    pub bytes: u64,
    /// The number of regions, if the header is good.
    pub regions: Option<usize>,
    /// The version that it is a delta of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_of: Option<i32>,
    /// The error of the header, or of a base.
    pub error: Option<String>,
}

impl InspectReport {
    /// The report on a checkpoint; the checksum is added by [`ChecksumReport::of`].
    ///
    /// # Errors
    /// A region that the file calls compressed is not.
    pub(super) fn of(
        subject: &InspectedCheckpoint,
        said: &FileDescription,
    ) -> Result<InspectReport> {
        let FileDescription { content, header, table } = said;
        let start = if content.is_compressed() { 0 } else { subject.part.start };
        let region = |(id, bytes, offset): (i32, u64, Option<u64>)| RegionReport {
            id,
            bytes,
            offset: offset.map(|offset| start + offset),
            compressed: None,
            part: None,
        };
        let parts = subject.parts(said)?;
        let mut regions: Vec<RegionReport> = said.regions().into_iter().map(region).collect();
        for region in &mut regions {
            region.compressed = CompressedReport::of(subject, said, region.id)?;
            let part = parts.iter().find(|(id, _)| *id == region.id);
            region.part = part.map(|(_, part)| format!("{part} of an array of {}", part.array));
        }
        let (name, rank, version) = match subject.identity.clone() {
            Some((name, rank, version)) => (Some(name), Some(rank), Some(version)),
            None => (None, None, None),
        };
        Ok(InspectReport {
            path: subject.opened.path.clone(),
            name,
            version,
            rank,
            bytes: subject.part.end - subject.part.start,
            content_bytes: content.is_compressed().then(|| content.len()),
            header_bytes: header.header().encoded_len() as u64,
            incremental: table.as_ref().map(IncrementalReport::of),
            regions,
            checksum: None,
            proof: None,
        })
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let mut text = title(&self.path, self.name.as_deref(), self.version);
        if let Some(rank) = self.rank {
            text += &format!(", rank {rank}");
        }
        let compressed =
            self.content_bytes.map(|bytes| format!(", compressed from {}", output::bytes(bytes)));
        text += &format!(
            "\n{}{}: {} of header, {}\n",
            output::bytes(self.bytes),
            compressed.unwrap_or_default(),
            self.header_bytes,
            output::count(self.regions.len(), "region", "regions")
        );
        if let Some(incremental) = &self.incremental {
            text += &incremental.text();
        }
        if let Some(checksum) = &self.checksum {
            text += &checksum.text();
        }
        if let Some(ProofReport { of, digest, fits }) = &self.proof {
            let judgement = if *fits { "it fits" } else { "it does NOT fit" };
            text += &format!("proof  {of}, {digest}\n       {judgement}\n");
        }
        if !self.regions.is_empty() {
            let mut table = output::table(&[">region", ">bytes", ">size", ">offset"]);
            for region in &self.regions {
                table.add_row([
                    region.id.to_string(),
                    region.bytes.to_string(),
                    size::show(region.bytes),
                    region.offset.map_or_else(|| "in part".to_owned(), |at| at.to_string()),
                ]);
            }
            text += &format!("{table}\n");
        }
        for region in &self.regions {
            if let Some(part) = &region.part {
                text += &format!("region {}: {part}\n", region.id);
            }
            if let Some(compressed) = &region.compressed {
                text += &format!("region {}: {}\n", region.id, compressed.text());
            }
        }
        text
    }
}

impl CompressedReport {
    fn of(
        subject: &InspectedCheckpoint,
        said: &FileDescription,
        id: i32,
    ) -> Result<Option<CompressedReport>> {
        let Some((region, decoded)) = said.header.region(id).and_then(|r| Some((r, r.decoded?)))
        else {
            return Ok(None);
        };
        let InspectedFile { file, path, .. } = subject.opened;
        let mut head = vec![0; region.size.min(HEADER_LEN as u64) as usize];
        said.content.read_exact_at(file, &mut head, region.offset, path)?;
        let within = || format!("{}: region {id}", path.display());
        let head = AnyHeader::read(&head).with_context(within)?;
        ensure!(
            head.content_len() == decoded && head.encoded_len()? == region.size,
            "{}: it is of {} bytes, and the file's header says {decoded}",
            within(),
            head.content_len()
        );
        Ok(Some(CompressedReport {
            uncompressed_bytes: decoded,
            element_bytes: match head {
                AnyHeader::Bounded(head) => head.element.bytes(),
                AnyHeader::Lossless(head) => head.element.bytes(),
            },
            lossless: matches!(head, AnyHeader::Lossless(_)),
            bounded: match head {
                AnyHeader::Bounded(head) => Some(BoundedReport {
                    bits: head.bits.number(),
                    bound: head.bound,
                    error: head.error,
                    whole_blocks: head.whole,
                }),
                AnyHeader::Lossless(_) => None,
            },
        }))
    }

    fn text(&self) -> String {
        let all = output::bytes(self.uncompressed_bytes);
        match &self.bounded {
            None => format!("{all} when decompressed; lossless, values of {} bytes", self.element_bytes),
            Some(bounded) => format!(
                "{all} when decompressed; {} bits of each value of {} bytes, {} kept whole; a value differs by at most \
                 {:e} (the bound is {:e})",
                bounded.bits,
                self.element_bytes,
                output::count(bounded.whole_blocks as usize, "block is", "blocks are"),
                bounded.error,
                bounded.bound
            ),
        }
    }
}

impl IncrementalReport {
    fn of(table: &DeltaTable) -> IncrementalReport {
        let changed = table.regions.iter().filter(|region| !region.runs.is_empty());
        let runs = table.regions.iter().flat_map(|region| &region.runs);
        IncrementalReport {
            delta_of: table.needed().map(|base| base.version),
            below: table.chain,
            changed_bytes: runs.map(|run| run.end - run.start).sum(),
            changed_regions: changed.count(),
        }
    }

    fn text(&self) -> String {
        let Some(base) = self.delta_of else {
            return "incremental: it has everything\n".to_owned();
        };
        format!(
            "incremental: a delta of version {base}, with at most {} below it; {} of changes in {}\n",
            output::count(self.below as usize, "version", "versions"),
            output::bytes(self.changed_bytes),
            output::count(self.changed_regions, "region", "regions")
        )
    }
}

impl ProofReport {
    /// The proof of a checkpoint, all of whose bytes are read and compared.
    pub(super) fn of(subject: &InspectedCheckpoint) -> Result<Option<ProofReport>> {
        let Some(proof) = &subject.proof else { return Ok(None) };
        let (InspectedFile { file, path, .. }, part) = (subject.opened, subject.part.clone());
        let is_of = subject.identity.as_ref().is_none_or(|(name, rank, version)| {
            proof.is_of(name, *version, *rank, part.end - part.start)
        });
        // A file of the application's own says which run made it, and may change.
        let Some(digest) = proof.digest else { return Ok(None) };
        let fits = is_of && Digest::of_range(digest.sort(), file, part, path, |_| ())? == digest;
        Ok(Some(ProofReport { of: proof.said(), digest: digest.to_string(), fits }))
    }
}

impl ChecksumReport {
    /// Reads all of a checkpoint, and the checksum in `meta`.
    pub(super) fn of(
        subject: &InspectedCheckpoint,
        meta: Option<&std::path::Path>,
    ) -> Result<ChecksumReport> {
        let kept_in = meta.map(|meta| checksum::path(meta, &subject.checkpoint_file()));
        let kept = match kept_in.as_deref().map(checksum::read) {
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => None,
            kept => kept.transpose()?,
        };
        let InspectedFile { file, path, .. } = subject.opened;
        let bar = output::bytes_bar("checksum", subject.part.end - subject.part.start);
        let found = checksum::of_range(file, subject.part.clone(), path, |bytes| bar.inc(bytes))?;
        bar.finish_and_clear();
        Ok(ChecksumReport {
            sha256: found.to_string(),
            kept: kept.map(|kept| kept.to_string()),
            kept_in,
            matches: kept.map(|kept| kept == found),
        })
    }

    fn text(&self) -> String {
        let place = self.kept_in.as_ref().map(|path| path.display());
        let judgement = match (&self.kept, self.matches, place) {
            (_, Some(true), Some(place)) => format!("as kept in {place}"),
            (Some(kept), _, Some(place)) => format!("NOT {kept}, which is kept in {place}"),
            (_, _, Some(place)) => format!("none is kept in {place}"),
            (_, _, None) => {
                "not compared: --meta, or the key meta of --config, says where one was kept"
                    .to_owned()
            }
        };
        format!("sha256 {}\n       {judgement}\n", self.sha256)
    }
}

impl PartsReport {
    /// The parts as text.
    pub(super) fn text(&self) -> String {
        let mut headings = vec![">rank", ">offset", ">bytes", ">size", ">regions"];
        let deltas = self.ranks.iter().any(|part| part.delta_of.is_some());
        headings.extend(deltas.then_some(">delta of"));
        headings.push("");
        let mut table = output::table(&headings);
        for part in &self.ranks {
            let mut row = vec![
                part.rank.to_string(),
                part.offset.to_string(),
                part.bytes.to_string(),
                size::show(part.bytes),
                part.regions.map_or_else(String::new, |regions| regions.to_string()),
            ];
            let delta_of = part.delta_of.map_or_else(String::new, |base| base.to_string());
            row.extend(deltas.then_some(delta_of));
            row.push(part.error.clone().unwrap_or_default());
            table.add_row(row);
        }
        format!(
            "{}, aggregated\n{} of {}\n{table}\n",
            title(&self.path, self.name.as_deref(), self.version),
            output::bytes(self.bytes),
            output::count(self.ranks.len(), "rank", "ranks")
        )
    }
}

fn title(path: &std::path::Path, name: Option<&str>, version: Option<i32>) -> String {
    match (name, version) {
        (Some(name), Some(version)) => {
            format!("{}: checkpoint \"{name}\" version {version}", path.display())
        }
        _ => path.display().to_string(),
    }
}
