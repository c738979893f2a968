//! The mark by which this program knows its own pictures.

use anyhow::{Context, Result};
use resvg::tiny_skia::Pixmap;

/// Stands in the first line of an SVG.
const COMMENT: &str = "<!-- drawn by veloc -->";
/// The keyword that the PNG standard has for the program that drew.
const KEYWORD: &str = "Software";
/// What stands under it.
const PROGRAM: &str = "veloc";

/// An SVG with the mark.
pub fn svg(svg: &str) -> String {
    format!("{COMMENT}\n{svg}")
}

/// Whether an SVG has the mark.
pub fn is_our_svg(bytes: &[u8]) -> bool {
    bytes.starts_with(COMMENT.as_bytes())
}

/// A PNG with the mark.
pub fn png(pixels: Pixmap) -> Result<Vec<u8>> {
    let (width, height) = (pixels.width(), pixels.height());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_text_chunk(KEYWORD.to_owned(), PROGRAM.to_owned()).context("its mark")?;
    let mut writer = encoder.write_header().context("its header")?;
    writer.write_image_data(&pixels.take_demultiplied()).context("its dots")?;
    writer.finish().context("its end")?;
    Ok(bytes)
}

/// Whether a PNG has the mark.
pub fn is_our_png(bytes: &[u8]) -> bool {
    let Ok(reader) = png::Decoder::new(std::io::Cursor::new(bytes)).read_info() else {
        return false;
    };
    let mut texts = reader.info().uncompressed_latin1_text.iter();
    texts.any(|text| text.keyword == KEYWORD && text.text == PROGRAM)
}
