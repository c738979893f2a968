//! Prints the table of configuration keys, for `cargo xtask docs`.

fn main() {
    print!("{}", veloc_client::config::markdown());
}
