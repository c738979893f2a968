//! The links of a document in Markdown.

/// The files that links name, as written in the text: without addresses of the web and places in
/// files.
pub fn linked_files(text: &str) -> Vec<&str> {
    let files = linked_places(text).into_iter().map(|(file, _)| file);
    files.filter(|file| !file.is_empty()).collect()
}

/// The files and headings that links name; the file is empty where it is the text's own, the heading where none is
/// named. Without addresses of the web.
pub fn linked_places(text: &str) -> Vec<(&str, &str)> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links
        .filter(|link| !link.contains("://"))
        .map(|link| link.split_once('#').unwrap_or((link, "")))
        .collect()
}

/// The names of a document's headings in links: small letters, hyphens for spaces, and nothing else but digits.
pub fn headings(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut names = Vec::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        names.push(kept.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a comment in a program that is taken for a heading, and a name that GitHub does not give.
    #[test]
    fn headings_have_the_names_of_links() {
        let text = "# A job, killed\n```sh\n# no heading\n```\n#include\n### `veloc_2003` & C++\n";
        assert_eq!(headings(text), ["a-job-killed", "veloc_2003--c"]);
        let text = "[a](b.md#c) [d](#e) ![f](g.png) [h](https://i.j/k#l)";
        assert_eq!(linked_places(text), [("b.md", "c"), ("", "e"), ("g.png", "")]);
    }
}
