//! Pictures: each is drawn once, as SVG, and the PNG is made of that.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{fontdb, Options, Tree};

/// Dots of the PNG for each unit of the SVG.
const SCALE: f32 = 2.0;

/// Writes `<stem>.svg` and `<stem>.png`. Returns their paths.
///
/// Text of any `font-family` is drawn in the one font that travels with the program, so that a
/// picture looks the same on a machine without fonts.
pub fn save(svg: &str, stem: &Path) -> Result<[PathBuf; 2]> {
    let [as_svg, as_png] = ["svg", "png"].map(|extension| {
        let mut name = stem.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        PathBuf::from(name)
    });
    fs::write(&as_svg, svg).with_context(|| format!("writing {}", as_svg.display()))?;
    let png = png(svg).with_context(|| format!("drawing {}", as_png.display()))?;
    fs::write(&as_png, png).with_context(|| format!("writing {}", as_png.display()))?;
    Ok([as_svg, as_png])
}

fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    let mut options =
        Options { fontdb: Arc::new(fonts), font_family: "Ubuntu".into(), ..Options::default() };
    let anything = |_: &_, fonts: &mut Arc<fontdb::Database>| fonts.faces().next().map(|f| f.id);
    options.font_resolver.select_font = Box::new(anything);
    let tree = Tree::from_str(svg, &options).context("reading the SVG")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("a picture without a size")?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).context("a picture without a size")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("encoding")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_drawn_without_any_font_of_the_system() {
        let svg = |text: &str| {
            format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="80" height="20"><text x="5" y="15" font-family="Nowhere" font-size="12">{text}</text></svg>"#
            )
        };
        assert_ne!(png(&svg("device cache")).unwrap(), png(&svg("")).unwrap());
    }
}
