//! Checkpoint files as VELOC's format has them, read and made without the library.
//!
//! Little-endian: a `u64` count; for each region a packed `i32` id and `u64` size, ascending by
//! signed id; then the regions' bytes in that order.

/// A region of a file: its id and its bytes.
pub type Region = (i32, Vec<u8>);

/// Reads a file; an error says what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Vec<Region>, String> {
    let mut rest = bytes;
    let count = u64::from_le_bytes(*take::<8>(&mut rest)?);
    let mut sizes = Vec::new();
    for _ in 0..count {
        let id = i32::from_le_bytes(*take::<4>(&mut rest)?);
        let size = u64::from_le_bytes(*take::<8>(&mut rest)?);
        sizes.push((id, size));
    }
    if sizes.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("ids do not ascend: {sizes:?}"));
    }
    let mut regions = Vec::new();
    for (id, size) in sizes {
        let size = usize::try_from(size).map_err(|error| error.to_string())?;
        let (region, after) =
            rest.split_at_checked(size).ok_or(format!("region {id} of {size} bytes is cut"))?;
        regions.push((id, region.to_vec()));
        rest = after;
    }
    if rest.is_empty() {
        Ok(regions)
    } else {
        Err(format!("{} bytes behind the last region", rest.len()))
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], String> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or("the header is cut")?;
    *rest = after;
    Ok(taken)
}

/// Makes a file of these regions, in this order.
pub fn encode(regions: &[Region]) -> Vec<u8> {
    let mut bytes = (regions.len() as u64).to_le_bytes().to_vec();
    for (id, content) in regions {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
    }
    for (_, content) in regions {
        bytes.extend_from_slice(content);
    }
    bytes
}

/// The bytes that `fill` of `check.h` gives a region.
pub fn content(id: i32, version: i32, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).map(|index| word(id, version, index));
    let mut content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    content.truncate(bytes);
    content
}

/// `content_word` of `check.h`.
pub fn word(id: i32, version: i32, index: u64) -> u64 {
    let mut x = u64::from(id as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(version as u32) << 40
        ^ index;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_read() {
        let regions = vec![(-7, vec![1, 2, 3]), (0, vec![]), (9, content(9, 1, 20))];
        let bytes = encode(&regions);
        assert_eq!(bytes.len(), 8 + 3 * 12 + 23);
        assert_eq!(parse(&bytes).unwrap(), regions);
        assert!(parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(parse(&[bytes, vec![0]].concat()).is_err());
        assert!(parse(&encode(&[(1, vec![]), (-1, vec![])])).is_err());
    }
}
