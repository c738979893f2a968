//! The site: the documents as pages by mdBook, and beside them the interfaces by Doxygen and pdoc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result, While};
use crate::files::{copy_folder, folder, made, read, write};
use crate::project::{cargo, has_program, output, root, run, target_directory};
use crate::python;

/// What makes the pages, and its version.
const MDBOOK: (&str, &str) = ("mdbook", "0.5.4");

/// What makes pages of the package `veloc` for Python, and what it needs.
const PDOC: [(&str, &str); 5] = [
    ("pdoc", "16.0.0"),
    ("jinja2", "3.1.6"),
    ("markupsafe", "3.0.4"),
    ("pygments", "2.21.0"),
    ("markdown2", "2.5.5"),
];

/// What is made, and what is not, with the reason.
#[derive(Debug)]
pub struct Site {
    /// The folder, whose `index.html` is the first page.
    pub folder: PathBuf,
    /// What was left out.
    pub skipped: Vec<String>,
}

/// Makes the site in `out`, or in the target directory.
///
/// # Errors
/// mdBook is not there and cannot be installed, or a tool says that something is wrong.
pub fn make(out: Option<PathBuf>) -> Result<Site> {
    let work = target_directory()?.join("site");
    let site = match out {
        Some(out) => std::path::absolute(&out).when(|| format!("finding {}", out.display()))?,
        None => work.join("html"),
    };
    let pages = work.join("src");
    if pages.exists() {
        fs::remove_dir_all(&pages).when(|| format!("removing {}", pages.display()))?;
    }
    copy_folder(&root().join("docs"), &pages)?;
    let settings = pages.join("site");
    fs::remove_dir_all(&settings).when(|| format!("removing {}", settings.display()))?;
    write(&pages.join("start.md"), &start()?)?;
    write(&work.join("book.toml"), &read(&root().join("docs/site/book.toml"))?)?;
    let mut skipped = Vec::new();
    write(&pages.join("interfaces.md"), INTERFACES)?;
    without_links_to_sources(&pages, Path::new(""))?;
    write(&pages.join("SUMMARY.md"), &read(&root().join("docs/site/SUMMARY.md"))?)?;
    run(Command::new(mdbook()?).arg("build").arg(&work).arg("--dest-dir").arg(&site))?;
    if has_program("doxygen") {
        doxygen(&site)?;
    } else {
        skipped.push("the interface in C, C++ and Fortran: there is no doxygen".to_owned());
    }
    match python::installed_together(&PDOC) {
        _ if !python::has_module("numpy") => {
            skipped.push("the interface in Python: there is no numpy".to_owned());
        }
        Ok(packages) => pdoc(&packages, &site)?,
        Err(error) => skipped.push(format!("the interface in Python: {error}")),
    }
    match skipped.is_empty() {
        true => lead_somewhere(&site, &site)?,
        false => skipped.push("the check of links: not all pages are there".to_owned()),
    }
    Ok(Site { folder: site, skipped })
}

/// Fails if a link of a document's page leads to no file. Doxygen and pdoc see to those of their own pages.
fn lead_somewhere(site: &Path, folder: &Path) -> Result<()> {
    let what = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).when(what)? {
        let path = entry.when(what)?.path();
        if path.is_dir() && !["api", "fortran", "python"].map(|own| site.join(own)).contains(&path)
        {
            lead_somewhere(site, &path)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = read(&path)?;
            let is_dead = |link: &&str| !path.with_file_name(link).is_file();
            if let Some(link) = linked_pages(&text).into_iter().find(is_dead) {
                return Err(Error::new(format!("{}: {link} is not there", path.display())));
            }
        }
    }
    Ok(())
}

/// The pages of the site that a page has links to.
fn linked_pages(text: &str) -> Vec<&str> {
    let links = text.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links = links.filter(|link| !link.contains(':') && !link.starts_with('/'));
    links.filter_map(|link| link.split('#').next()).filter(|link| !link.is_empty()).collect()
}

/// The page of interfaces, whose pages come from other programs.
const INTERFACES: &str = "# Interfaces\n\n\
    | language | has |\n| --- | --- |\n\
    | C | [checkpoints and restarts](api/veloc_8h.html), [adjoint runs and schedules](api/adjoint_8h.html), \
      [figures](api/metrics_8h.html), [arrays that survive](api/pmem_8h.html), \
      [constants and types](api/defs_8h.html), [the log of messages](api/veloc-mpi_8h.html) |\n\
    | C++ | [the namespace `veloc`](api/namespaceveloc.html) |\n\
    | Fortran | the modules [`veloc`](fortran/namespaceveloc.html), with all of [`veloc_2003`](fortran/namespaceveloc__2003.html), and \
      [`veloc_schedules`](fortran/namespaceveloc__schedules.html), [`veloc_arrays`](fortran/namespaceveloc__arrays.html), \
      [`veloc_f08`](fortran/namespaceveloc__f08.html), [`veloc_parts`](fortran/namespaceveloc__parts.html). Doxygen \
      writes their names in small letters. A procedure without a sentence does what the function of its name does in \
      C. |\n\
    | Python | [the package `veloc`](python/veloc.html) with [`veloc.revolve`](python/veloc/revolve.html) and \
      [`veloc.torch`](python/veloc/torch.html) |\n";

/// The first page: the README, whose documents are beside it here.
fn start() -> Result<String> {
    Ok(read(&root().join("README.md"))?.replace("](docs/", "]("))
}

/// Keeps the text of links that leave the documents, which the site has not, and says so.
fn without_links_to_sources(pages: &Path, below: &Path) -> Result<()> {
    let what = || format!("reading {}", pages.join(below).display());
    for entry in fs::read_dir(pages.join(below)).when(what)? {
        let entry = entry.when(what)?;
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            without_links_to_sources(pages, &path)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = inside(&read(&entry.path())?, |link| leads_to(pages, &path, link));
            // mdBook makes `index.html` of a README, and leaves the links to it.
            write(&entry.path(), &text.replace("README.md", "index.md"))?;
        }
    }
    Ok(())
}

/// Whether a link of the page leads to the web, to a page, or to what other programs make.
fn leads_to(pages: &Path, page: &Path, link: &str) -> bool {
    let file = link.split('#').next().unwrap_or_default();
    file.is_empty()
        || file.contains("://")
        || file.ends_with(".html")
        || pages.join(page).with_file_name(file).exists() && !leaves(page, file)
}

/// Whether a link of the page leads out of the documents.
fn leaves(page: &Path, file: &str) -> bool {
    let depth = page.components().count().saturating_sub(1);
    Path::new(file).components().filter(|part| part.as_os_str() == "..").count() > depth
}

/// The text with those links alone that are kept.
fn inside(text: &str, keeps: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("](") {
        let Some((link, after)) = behind.split_once(')') else { break };
        match before.rfind('[').filter(|_| !keeps(link)) {
            Some(at) => {
                kept.extend([&before[..at], &before[at + 1..], " (in the sources)"]);
            }
            None => kept.extend([before, "](", link, ")"]),
        }
        rest = after;
    }
    kept + rest
}

/// mdBook: the one on the path, or one that is installed below the target directory.
fn mdbook() -> Result<PathBuf> {
    let (name, version) = MDBOOK;
    if has_program(name) {
        return Ok(name.into());
    }
    let place = target_directory()?.join(format!("{name}-{version}"));
    let installed = made(place, |unfinished| {
        println!("installing {name} {version}, which takes minutes");
        let mut command = cargo();
        command.args(["install", "--locked", "--no-default-features", "--features", "search"]);
        command.args(["--version", version, name, "--root"]).arg(unfinished);
        run(&mut command)
    })?;
    Ok(installed.join("bin").join(name))
}

/// The pages of the interface in C, C++ and Fortran.
fn doxygen(site: &Path) -> Result<()> {
    let settings = read(&root().join("docs/site/Doxyfile"))?;
    let file = target_directory()?.join("site/Doxyfile");
    // Apart, as a module of Fortran has the name of C++'s namespace.
    for (input, pages, language, named) in [
        ("include", "api", "OPTIMIZE_OUTPUT_FOR_C", "C and C++"),
        ("fortran", "fortran", "OPTIMIZE_FOR_FORTRAN", "Fortran"),
    ] {
        let own = format!(
            "INPUT = {input}\nHTML_OUTPUT = {pages}\n{language} = YES\nPROJECT_BRIEF = \"The interface in {named}\"\n\
             OUTPUT_DIRECTORY = \"{}\"\n",
            site.display()
        );
        write(&file, &(settings.clone() + &own))?;
        run(Command::new("doxygen").arg(&file).current_dir(root()).stderr(Stdio::null()))?;
    }
    Ok(())
}

/// The pages of the interface in Python.
fn pdoc(packages: &Path, site: &Path) -> Result<()> {
    let place = site.join("python");
    folder(&place)?;
    let own = root().join("python");
    let path = std::env::join_paths([packages, &own, &own.join("tests/standin")])
        .map_err(|error| Error::new(error.to_string()))?;
    let mut command = Command::new(python::interpreter());
    command.args(["-m", "pdoc", "--output-directory"]).arg(&place);
    // The way back to the documents.
    command.arg("--template-directory").arg(root().join("docs/site/pdoc"));
    // The last with the stand-in for PyTorch, which the tests use as well.
    command.args(["veloc", "veloc.revolve", "veloc.torch"]);
    output(command.env("PYTHONPATH", path)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a link that leads nowhere on the site, and one that is lost although its page is there.
    #[test]
    fn links_that_leave_the_documents_become_text() {
        let text = "[a](b.md#c), [`d`](../../e.h) and ![f](../g.png)";
        let found = inside(text, |link| !leaves(Path::new("guide/x.md"), link));
        assert_eq!(found, "[a](b.md#c), `d` (in the sources) and ![f](../g.png)");
    }

    /// Catches links of the web that are taken for files, and a place in a page that is taken for a part of its name.
    #[test]
    fn links_of_a_page_are_found() {
        let text = "<a href=\"a/b.html#c\">x</a> <a href=\"#d\"> <a href=\"https://e/f\"> <a href=\"g.html\">";
        assert_eq!(linked_pages(text), ["a/b.html", "g.html"]);
    }

    /// Catches a document that no page of the site leads to.
    #[test]
    fn every_document_is_in_the_summary() {
        let summary = read(&root().join("docs/site/SUMMARY.md")).unwrap();
        for folder in ["", "tutorials/", "guide/", "design/"] {
            for entry in fs::read_dir(root().join("docs").join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let is_there = summary.contains(&format!("({folder}{name})"));
                assert!(!name.ends_with(".md") || is_there, "{folder}{name}");
            }
        }
    }
}
