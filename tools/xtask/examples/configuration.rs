//! Prints the tables of configuration keys, for `cargo xtask docs`.

fn main() {
    print!("{}", config::markdown());
}
