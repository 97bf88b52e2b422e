//! The table of settings as flags of the command line.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::Settings;
use super::table::{Join, Kind, Row, SETTINGS};

/// Settings that the command line must have.
const NEEDED: [&str; 3] = ["model", "corpus", "out"];

fn argument(row: &'static Row) -> Arg {
    let argument =
        Arg::new(row.name).long(row.name).help(row.help_text()).help_heading(row.heading.title()).required(NEEDED.contains(&row.name));
    match row.kind {
        Kind::Value(placeholder, _) | Kind::Words(placeholder, _) => argument.value_name(placeholder),
        Kind::Values(placeholder, _, Join::List) => argument.value_name(placeholder).num_args(1..).action(ArgAction::Append),
        Kind::Values(placeholder, _, Join::Repeated) => argument.value_name(placeholder).action(ArgAction::Append),
        Kind::Truth => argument.value_name("true|false").num_args(0..=1).default_missing_value("true").require_equals(true),
        Kind::Switch if row.name == "resume" => argument.action(ArgAction::SetTrue).conflicts_with("overwrite"),
        Kind::Switch => argument.action(ArgAction::SetTrue),
    }
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Settings::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Settings, clap::Error> {
        let mut settings = Settings::default();
        for row in SETTINGS {
            let values: Vec<String> = match row.kind {
                Kind::Switch => matches.get_flag(row.name).then(|| "true".to_owned()).into_iter().collect(),
                _ => matches.get_many::<String>(row.name).into_iter().flatten().cloned().collect(),
            };
            if !values.is_empty() {
                settings.given.insert(row.name, values);
            }
        }
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Settings::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Settings, clap::Error> {
        let command = Settings::augment_args(Command::new("measure").no_binary_name(true));
        Settings::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn flags_are_settings() {
        let needed = ["--model", "m", "--corpus", "a", "b", "--out", "o"];
        let settings =
            parsed(&[&needed[..], &["--lowercase", "--dedup=false", "--ablate", "final-norm", "--ablate", "norm:beta=0"]].concat());
        let settings = settings.expect("flags");
        assert_eq!(settings.values("corpus"), ["a", "b"]);
        let choices = settings.choose().expect("choices");
        assert_eq!((choices.text("lowercase"), choices.text("dedup")), (Some("true"), Some("false")));
        assert_eq!(choices.text("ablate"), Some("final-norm; norm:beta=0"));
        assert!(parsed(&needed[2..]).is_err() && parsed(&[&needed[..], &["--resume", "--overwrite"]].concat()).is_err());
    }
}
