use std::sync::atomic::Ordering::Relaxed;

use super::super::{Assembler, Program, Register};
use super::*;

#[test]
fn elements_come_and_go_and_the_oldest_give_way() {
    let map =
        HashMap::<8, 8>::create("ct_io_map", 256).unwrap_or_else(|e| panic!("this test needs root: {e}"));
    assert_eq!(map.get(&[1; 8]).unwrap(), None);
    assert!(map.insert(&[1; 8], &[2; 8]).unwrap());
    assert!(!map.insert(&[1; 8], &[3; 8]).unwrap(), "what is there stays");
    assert_eq!(map.get(&[1; 8]).unwrap(), Some([2; 8]));
    assert!(map.remove(&[1; 8]).unwrap());
    assert!(!map.remove(&[1; 8]).unwrap());
    for number in 0..2_000u64 {
        assert!(map.insert(&number.to_ne_bytes(), &[0; 8]).unwrap(), "a full map takes {number}");
    }
    let there = (0..2_000u64).filter(|number| map.get(&number.to_ne_bytes()).unwrap().is_some()).count();
    assert!((1..=256).contains(&there), "{there}");
}

#[test]
fn an_array_is_memory_of_both() {
    let array =
        SharedArray::create("ct_io_array", 40).unwrap_or_else(|e| panic!("this test needs root: {e}"));
    array.words()[39].store(7, Relaxed);
    // What the kernel has, through the system call.
    let value: [u8; 320] = system::look_up(array.as_fd(), &[0; 4]).unwrap();
    assert_eq!(value[312..], 7u64.to_ne_bytes());
}

#[test]
fn what_the_verifier_says_is_in_the_error() {
    let mut a = Assembler::new();
    a.copy(Register::R0, Register::R3);
    a.exit();
    let error = Program::load("ct_io_bad", &a.finish().unwrap()).unwrap_err().to_string();
    assert!(error.contains("'ct_io_bad'") && error.contains("R3 !read_ok"), "{error}");
    assert_eq!(error.lines().count(), 1);
}
