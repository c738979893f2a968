//! Prints the table of configuration keys, for `cargo xtask docs`.

fn main() {
    print!("{}", config::markdown());
}
