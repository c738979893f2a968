//! The links of a document in Markdown.

/// The files that links name, as written in the text: without addresses of the web and places in
/// files.
pub fn linked_files(text: &str) -> Vec<&str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links
        .filter(|link| !link.contains("://") && !link.starts_with('#'))
        .filter_map(|link| link.split('#').next())
        .collect()
}
