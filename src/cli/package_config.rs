//! Tests that make `packaging/config.toml`, the configuration file of the package, from the options of the command line, and compare
//! it with the committed one.

use clap::builder::ArgAction;

use super::command;
use crate::config::file;

/// The one option that is set, so that commands find the data whatever folder they run in.
const DATABASE: &str = "sqlite:/var/lib/animal-store/animal-store.db";

const HEAD: &str = "\
# The configuration of Animal Store. Every command reads it, unless --config names another file.
# Flags and environment variables (ANIMAL_STORE_LISTEN for `listen`) take precedence. Options that are commented out are shown with their
# default, or with a placeholder. After a change: systemctl restart animal-store
#
# Everyone can read this file: passwords and tokens belong in /etc/animal-store/secrets (see animal-store.service),
# and the URL of a Redis with a password in ANIMAL_STORE_REDIS, in an EnvironmentFile= of the service.
";

fn path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/config.toml")
}

/// The text of the file.
fn generate() -> String {
    let command = command();
    let serve = command.find_subcommand("serve").unwrap();
    let mut text = HEAD.to_owned();
    for option in serve.get_arguments() {
        let name = option.get_long().unwrap();
        if ["config", "help"].contains(&name) {
            continue;
        }
        let mut help = option.get_help().unwrap().to_string();
        if let ArgAction::Append = option.get_action() {
            let start = help
                .strip_suffix("; can be repeated, or separated by commas")
                .unwrap();
            help = format!("{start}; a list");
        }
        let defaults: Vec<_> = option.get_default_values().iter().collect();
        let value = match (option.get_action(), &defaults[..]) {
            (ArgAction::SetTrue, _) => "false".to_owned(),
            (ArgAction::Append, _) => {
                format!("[{:?}]", option.get_value_names().unwrap()[0].as_str())
            }
            (_, []) => format!("{:?}", option.get_value_names().unwrap()[0].as_str()),
            (_, [default, ..]) => match default.to_str().unwrap() {
                number if number.parse::<i64>().is_ok() => number.to_owned(),
                text => format!("{text:?}"),
            },
        };
        text.push_str(&format!("\n# {help}.\n"));
        if name == "listen" {
            text.push_str(
                "# The package's socket unit listens instead (systemctl edit animal-store.socket); healthcheck uses this address.\n",
            );
        }
        match name {
            "database" => text.push_str(&format!("database = {DATABASE:?}\n")),
            _ => text.push_str(&format!("#{name} = {value}\n")),
        }
    }
    text
}

#[test]
fn the_file_of_the_package_has_every_option_with_its_help_and_default() {
    let generated = generate();
    if std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some() {
        std::fs::write(path(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(path()).unwrap();
    assert_eq!(
        committed, generated,
        "ANIMAL_STORE_TEST_WRITE=1 rewrites it"
    );
}

#[test]
fn the_file_of_the_package_parses_with_every_default_enabled() {
    let folder = tempfile::tempdir().unwrap();
    let text = generate();
    let is_default = |line: &str| {
        line.starts_with('#') && !line.starts_with("# ") && {
            let value = line.split(" = ").nth(1).unwrap_or_default();
            let placeholder = value.trim_matches(['[', ']', '"']);
            !placeholder.is_empty()
                && !placeholder
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b == b':')
        }
    };
    let enabled: Vec<&str> = text
        .lines()
        .map(|line| if is_default(line) { &line[1..] } else { line })
        .collect();
    assert!(
        enabled
            .iter()
            .filter(|line| line.contains(" = ") && !line.starts_with('#'))
            .count()
            > 10
    );
    for text in [text.clone(), enabled.join("\n")] {
        let file = folder.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        file::apply(command(), "--config", &file).unwrap();
    }
}
