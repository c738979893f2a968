//! The text of `veloc-backend --help` and of its man page.

/// The program's name.
pub const PROGRAM: &str = "veloc-backend";

/// The purpose of the program, in a line.
pub const ABOUT: &str = "Hold the host buffers of a node's jobs, and write what they leave";

/// The purpose of the program, in paragraphs.
pub const DETAILS: [&str; 4] = [
    "It serves the jobs of one user and one configuration (mode = async): it holds their host \
     buffers, and when a job has ended, or was killed, it writes what is in them to scratch and to \
     persistent.",
    "The library starts it by itself, on each node; that one ends with its last job. One that is \
     started by hand stays until SIGTERM.",
    "For jobs with hand_over = NAME it keeps the host buffer after their end, until the next job of that \
     name takes it, hand_over_time is over, or `veloc-backend drop NAME` frees it. `veloc ls` shows what \
     is kept.",
    "Ends with exit code 0, also if there is one for this configuration already; 1 for a failure; 2 \
     for options that cannot be read. Messages go to veloc-backend-<host>-<user>.log in log_prefix, \
     or in /tmp/veloc-<uid>; VELOC_LOG says how much is logged.",
];

/// The word that frees the memory which is kept under a name.
pub const DROP: &str = "drop";

/// The positional argument and its meaning.
pub const ARGUMENT: (&str, &str) = ("CONFIGURATION", "The configuration of the jobs");

/// Options without `--`, with their short letters and meanings.
pub const OPTIONS: [(&str, Option<char>, &str); 4] = [
    ("foreground", None, "Stay in the terminal, with messages on standard error"),
    ("disable-ec", None, "Taken as upstream's does, without effect: erasure codes are the job's"),
    ("help", Some('h'), "Print this help"),
    ("version", Some('V'), "Print the version, and of which protocol it is"),
];

/// The text of `--help`.
pub fn help() -> String {
    let mut text = format!(
        "{ABOUT}\n\nUsage: {PROGRAM} [OPTIONS] <{}>\n       \
         {PROGRAM} {DROP} <NAME>\n\n",
        ARGUMENT.0
    );
    for paragraph in DETAILS {
        text += &folded(paragraph);
        text.push('\n');
    }
    text += &format!("  {:<18}{}\n", format!("<{}>", ARGUMENT.0), ARGUMENT.1);
    for (name, letter, meaning) in OPTIONS {
        let letter = letter.map_or(String::new(), |letter| format!("-{letter}, "));
        text += &format!("  {:<18}{meaning}\n", format!("{letter}--{name}"));
    }
    text
}

/// A paragraph in lines of at most 80 columns.
fn folded(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split(' ') {
        if column > 0 && column + 1 + word.len() > 80 {
            text.push('\n');
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += word.len();
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_and_has_every_option() {
        let text = help();
        assert!(text.lines().all(|line| line.len() <= 90), "{text}");
        for (name, ..) in OPTIONS {
            assert!(text.contains(&format!("--{name} ")), "{text}");
        }
        for paragraph in DETAILS {
            assert!(text.replace('\n', " ").contains(paragraph), "{text}");
        }
    }
}
