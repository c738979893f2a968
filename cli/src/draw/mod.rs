//! Pictures: each is drawn once, as SVG, and the PNG is made of that. Only pictures of this program
//! are replaced by others.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{fontdb, Options, Tree};

mod mark;
pub mod sizes;
pub mod svg;

/// Dots of the PNG for each unit of the SVG.
const SCALE: f32 = 2.0;

/// Writes `<stem>.svg` and `<stem>.png`. Returns their paths.
///
/// Text of any `font-family` is drawn in the one font that travels with the program, so that a
/// picture looks the same on a machine without fonts.
///
/// # Errors
///
/// If one of the files exists and was not drawn by this program, nothing is written.
pub fn save(svg: &str, stem: &Path) -> Result<[PathBuf; 2]> {
    let [as_svg, as_png] = ["svg", "png"].map(|extension| {
        let mut name = stem.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        PathBuf::from(name)
    });
    for (path, ours) in
        [(&as_svg, mark::is_our_svg as fn(&[u8]) -> bool), (&as_png, mark::is_our_png)]
    {
        match fs::read(path) {
            Ok(bytes) if !ours(&bytes) => bail!(
                "{} was not drawn by this program, and stays as it is; choose another name",
                path.display()
            ),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }
    let pixels = pixels(svg).with_context(|| format!("drawing {}", as_png.display()))?;
    let png = mark::png(pixels).with_context(|| format!("encoding {}", as_png.display()))?;
    for (path, bytes) in [(&as_svg, mark::svg(svg).as_bytes()), (&as_png, &png)] {
        fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok([as_svg, as_png])
}

fn pixels(svg: &str) -> Result<Pixmap> {
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
    Ok(pixels)
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
        let text = pixels(&svg("device cache")).unwrap();
        assert_ne!(text.data(), pixels(&svg("")).unwrap().data());
    }

    const SMALL: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="8" height="2"></svg>"#;

    #[test]
    fn pictures_of_this_program_are_replaced_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("rtm");
        let written = save(SMALL, &stem).unwrap();
        save(&SMALL.replace("8", "9"), &stem).unwrap();
        for (path, stranger) in written.iter().zip([SMALL.into(), other_png()]) {
            save(SMALL, &stem).unwrap();
            let before = fs::read(&written[0]).unwrap();
            fs::write(path, &stranger).unwrap();
            let error = save(&SMALL.replace("8", "7"), &stem).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert_eq!(fs::read(path).unwrap(), stranger);
            assert!(path == &written[0] || fs::read(&written[0]).unwrap() == before, "half of it");
            fs::remove_file(path).unwrap();
        }
    }

    /// As another program would write it.
    fn other_png() -> Vec<u8> {
        pixels(SMALL).unwrap().encode_png().unwrap()
    }
}
