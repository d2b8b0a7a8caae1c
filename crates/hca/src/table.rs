//! A table of objects whose handles carry a generation: a handle to a removed object finds nothing, even when another
//! object has taken its slot.

use std::marker::PhantomData;

use weft_verbs::{CqId, MrId, MwId, PdId, QpId, SrqId, VerbsError, XrcdId};

/// A handle as seen by the table.
pub(crate) trait Handle: Copy {
    fn new(index: u32, generation: u32) -> Self;
    fn index(self) -> u32;
    fn generation(self) -> u32;
}

macro_rules! handles {
    ($($name:ident)*) => {$(
        impl Handle for $name {
            fn new(index: u32, generation: u32) -> Self {
                $name { index, generation }
            }
            fn index(self) -> u32 {
                self.index
            }
            fn generation(self) -> u32 {
                self.generation
            }
        }
    )*};
}

handles!(PdId MrId MwId CqId SrqId QpId XrcdId);

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Objects of one kind, at most `max` of them.
#[derive(Debug)]
pub(crate) struct Table<H, T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    max: u32,
    /// Kind of object, for errors.
    what: &'static str,
    handle: PhantomData<H>,
}

impl<H: Handle, T> Table<H, T> {
    pub(crate) fn new(max: u32, what: &'static str) -> Self {
        Table { slots: Vec::new(), free: Vec::new(), max, what, handle: PhantomData }
    }

    /// Returns the number of objects in the table.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether the table has no room for another object.
    pub(crate) fn is_full(&self) -> bool {
        self.len() as u64 >= u64::from(self.max)
    }

    pub(crate) fn insert(&mut self, value: T) -> Result<H, VerbsError> {
        self.insert_with(|_| value)
    }

    /// Inserts the object that `make` builds from its future handle.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(H) -> T) -> Result<H, VerbsError> {
        if self.is_full() {
            return Err(VerbsError::NoMemory(self.what));
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { generation: 0, value: None });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        let handle = H::new(index, slot.generation);
        slot.value = Some(make(handle));
        Ok(handle)
    }

    #[inline]
    pub(crate) fn get(&self, handle: H) -> Result<&T, VerbsError> {
        match self.slots.get(handle.index() as usize) {
            Some(Slot { generation, value: Some(value) }) if *generation == handle.generation() => Ok(value),
            _ => Err(VerbsError::NoSuchObject(self.what)),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: H) -> Result<&mut T, VerbsError> {
        match self.slots.get_mut(handle.index() as usize) {
            Some(Slot { generation, value: Some(value) }) if *generation == handle.generation() => Ok(value),
            _ => Err(VerbsError::NoSuchObject(self.what)),
        }
    }

    pub(crate) fn remove(&mut self, handle: H) -> Result<T, VerbsError> {
        let what = self.what;
        let slot = self
            .slots
            .get_mut(handle.index() as usize)
            .filter(|slot| slot.generation == handle.generation())
            .ok_or(VerbsError::NoSuchObject(what))?;
        let value = slot.value.take().ok_or(VerbsError::NoSuchObject(what))?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.index());
        Ok(value)
    }

    /// Returns all objects, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (H, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let value = slot.value.as_ref()?;
            Some((H::new(index as u32, slot.generation), value))
        })
    }

    /// Returns all objects mutably.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (H, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let value = slot.value.as_mut()?;
            Some((H::new(index as u32, slot.generation), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut table: Table<PdId, u8> = Table::new(2, "pd");
        let first = table.insert(1).unwrap();
        let second = table.insert(2).unwrap();
        assert_eq!(table.insert(3), Err(VerbsError::NoMemory("pd")));
        assert_eq!(table.remove(first), Ok(1));
        assert_eq!(table.remove(first), Err(VerbsError::NoSuchObject("pd")));
        let third = table.insert(3).unwrap();
        assert_eq!(third.index, first.index);
        assert!(table.get(first).is_err());
        assert_eq!(table.get(third), Ok(&3));
        assert_eq!(table.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [3, 2]);
        assert_eq!((table.len(), table.get(second)), (2, Ok(&2)));
    }
}
