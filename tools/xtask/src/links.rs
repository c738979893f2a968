//! What a document in Markdown links to.

/// The files that its links name, as they name them: no addresses, and no places in files.
pub fn linked_files(text: &str) -> Vec<&str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links
        .filter(|link| !link.contains("://") && !link.starts_with('#'))
        .filter_map(|link| link.split('#').next())
        .collect()
}
