//! The dictionary of groups: ids or names, numbered as they come.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::rows::GroupsOf;
use crate::error::{Error, Result};

/// Ids below this are found without hashing.
const DIRECT: usize = 1 << 21;
const UNKNOWN: u32 = u32::MAX;

/// Who a group is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum GroupKey {
    Id(u64),
    Name(String),
}

impl GroupKey {
    /// As people write it.
    pub fn text(&self) -> String {
        match self {
            GroupKey::Id(id) => id.to_string(),
            GroupKey::Name(name) => name.clone(),
        }
    }

    /// The same 32 bits in every process, for whoever asks whether two states are of one group.
    pub fn token(&self) -> u32 {
        match self {
            GroupKey::Id(id) => u32::try_from(*id).unwrap_or_else(|_| (id ^ (id >> 32)) as u32),
            GroupKey::Name(name) => layerscope_corpus::hash::hash64([0, 0], name.as_bytes()) as u32,
        }
    }
}

/// Groups by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    keys: Vec<GroupKey>,
    direct: Vec<u32>,
    hashed: HashMap<GroupKey, u32>,
    kind: Option<Kind>,
}

/// What groups are called by; one kind for all updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Ids,
    Names,
}

impl Kind {
    fn of(groups: &GroupsOf<'_>) -> Kind {
        match groups {
            GroupsOf::None => Kind::None,
            GroupsOf::Ids(_) => Kind::Ids,
            GroupsOf::Names(_) => Kind::Names,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::None => "no groups",
            Kind::Ids => "groups by id",
            Kind::Names => "groups by name",
        }
    }
}

/// The only group where nobody gave any.
const ALL: &str = "all";

impl Groups {
    /// From the keys, in the order of their numbers.
    pub fn from_keys(keys: Vec<GroupKey>) -> Result<Groups> {
        let mut groups = Groups::default();
        for key in keys {
            groups.expect(match &key {
                GroupKey::Id(_) => Kind::Ids,
                GroupKey::Name(_) => Kind::Names,
            })?;
            groups.add(key)?;
        }
        Ok(groups)
    }

    /// The same, of states that have no groups.
    pub fn ungrouped() -> Groups {
        let key = GroupKey::Name(ALL.to_owned());
        Groups { hashed: HashMap::from([(key.clone(), 0)]), keys: vec![key], direct: Vec::new(), kind: Some(Kind::None) }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn keys(&self) -> &[GroupKey] {
        &self.keys
    }

    /// The number of the group that people call so.
    pub fn named(&self, text: &str) -> Option<u32> {
        let by_id = || {
            let id: u64 = text.parse().ok()?;
            let direct = usize::try_from(id).ok().and_then(|id| self.direct.get(id).copied()).filter(|number| *number != UNKNOWN);
            direct.or_else(|| self.hashed.get(&GroupKey::Id(id)).copied())
        };
        self.hashed.get(&GroupKey::Name(text.to_owned())).copied().or_else(by_id)
    }

    /// Whether states have groups at all.
    pub fn is_grouped(&self) -> bool {
        self.kind != Some(Kind::None)
    }

    fn expect(&mut self, kind: Kind) -> Result<()> {
        match self.kind {
            Some(known) if known != kind => Err(Error::usage(format!(
                "{} now and {} before: give the same kind of groups with every update",
                kind.words(),
                known.words()
            ))),
            _ => {
                self.kind = Some(kind);
                Ok(())
            }
        }
    }

    /// The numbers of these rows' groups.
    pub fn numbers_of(&mut self, groups: &GroupsOf<'_>, rows: &[usize]) -> Result<Vec<u32>> {
        match groups {
            GroupsOf::None => self.numbers(groups, rows.len()),
            GroupsOf::Ids(ids) => self.numbers(&GroupsOf::Ids(&rows.iter().map(|&row| ids[row]).collect::<Vec<_>>()), rows.len()),
            GroupsOf::Names(names) => {
                self.numbers(&GroupsOf::Names(&rows.iter().map(|&row| names[row].clone()).collect::<Vec<_>>()), rows.len())
            }
        }
    }

    /// The same where all of them are known.
    pub fn known(&self, groups: &GroupsOf<'_>, rows: &[usize]) -> Option<Vec<u32>> {
        if self.kind != Some(Kind::of(groups)) {
            return None;
        }
        let key = |row: usize| groups.key(row).unwrap_or_else(|| GroupKey::Name(ALL.to_owned()));
        rows.iter().map(|&row| self.hashed.get(&key(row)).copied()).collect()
    }

    /// The number of every row's group.
    pub fn numbers(&mut self, groups: &GroupsOf<'_>, rows: usize) -> Result<Vec<u32>> {
        self.expect(Kind::of(groups))?;
        match groups {
            GroupsOf::None => {
                let number = self.number(GroupKey::Name(ALL.to_owned()))?;
                Ok(vec![number; rows])
            }
            GroupsOf::Ids(ids) => ids.iter().map(|&id| self.of_id(id)).collect(),
            GroupsOf::Names(names) => names.iter().map(|name| self.of_name(name)).collect(),
        }
    }

    fn of_id(&mut self, id: u64) -> Result<u32> {
        match self.direct.get(id as usize) {
            Some(&number) if number != UNKNOWN => Ok(number),
            _ => self.number(GroupKey::Id(id)),
        }
    }

    fn of_name(&mut self, name: &str) -> Result<u32> {
        self.number(GroupKey::Name(name.to_owned()))
    }

    fn number(&mut self, key: GroupKey) -> Result<u32> {
        match self.hashed.get(&key) {
            Some(&number) => Ok(number),
            None => self.add(key),
        }
    }

    fn add(&mut self, key: GroupKey) -> Result<u32> {
        let number = u32::try_from(self.keys.len()).ok().filter(|number| *number < UNKNOWN);
        let number = number.ok_or_else(|| Error::refused("there are too many groups".to_owned()))?;
        if let GroupKey::Id(id) = key
            && id < DIRECT as u64
        {
            let place = id as usize;
            if place >= self.direct.len() {
                self.direct.resize((place + 1).next_power_of_two(), UNKNOWN);
            }
            self.direct[place] = number;
        }
        self.hashed.insert(key.clone(), number);
        self.keys.push(key);
        Ok(number)
    }

    /// Takes over the groups of another dictionary; our number of each of its groups.
    pub fn absorb(&mut self, other: &Groups) -> Result<Vec<u32>> {
        if let Some(kind) = other.kind {
            self.expect(kind)?;
        }
        other.keys.iter().map(|key| self.number(key.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbered_as_they_come_and_joined_by_who_they_are() {
        let mut ours = Groups::default();
        assert_eq!(ours.numbers(&GroupsOf::Ids(&[9, 3, 9, 1 << 40]), 4).expect("ids"), [0, 1, 0, 2]);
        let mut theirs = Groups::default();
        theirs.numbers(&GroupsOf::Ids(&[4, 3]), 2).expect("ids");
        assert_eq!(ours.absorb(&theirs).expect("ids"), [3, 1]);
        assert_eq!(ours.known(&GroupsOf::Ids(&[4, 7, 9]), &[0, 2]), Some(vec![3, 0]));
        assert_eq!(ours.known(&GroupsOf::Ids(&[4, 7, 9]), &[0, 1]), None);
        assert_eq!(ours.known(&GroupsOf::None, &[0]), None);
        assert_eq!(ours.keys(), [9, 3, 1 << 40, 4].map(GroupKey::Id));
        let line = ours.numbers(&GroupsOf::None, 1).expect_err("another kind").to_string();
        assert_eq!(line, "no groups now and groups by id before: give the same kind of groups with every update");
    }
}
