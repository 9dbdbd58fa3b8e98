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
fn a_map_of_another_process_has_the_sizes_that_are_said() {
    let map =
        HashMap::<8, 4>::create("ct_io_map", 256).unwrap_or_else(|e| panic!("this test needs root: {e}"));
    let copy = || map.as_fd().try_clone_to_owned().unwrap();
    assert!(map.insert(&[0; 8], &[7; 4]).unwrap());
    assert_eq!(HashMap::<8, 4>::adopt(copy(), 256).unwrap().get(&[0; 8]).unwrap(), Some([7; 4]));
    let errors = [
        HashMap::<4, 4>::adopt(copy(), 256).unwrap_err(),
        HashMap::<8, 8>::adopt(copy(), 256).unwrap_err(),
        HashMap::<8, 4>::adopt(copy(), 255).unwrap_err(),
    ];
    for error in errors {
        let error = error.to_string();
        assert!(error.contains("it has 256 elements of 8 and 4 bytes (kind 9), and "), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // An array is no hash map, a program and a file are no maps.
    let array = SharedArray::create("ct_io_array", 1).unwrap();
    let copy = array.as_fd().try_clone_to_owned().unwrap();
    assert!(HashMap::<4, 8>::adopt(copy, 1).unwrap_err().to_string().contains("(kind 2)"));
    let mut a = Assembler::new();
    a.set(Register::R0, 0);
    a.exit();
    let program = Program::load("ct_io_none", &a.finish().unwrap()).unwrap();
    let copy = program.as_fd().try_clone_to_owned().unwrap();
    for other in [copy, std::fs::File::open("/dev/null").unwrap().into()] {
        // Even if what the kernel tells of a program looked like the map.
        let looked = system::has_zero_key(other.as_fd(), 8, 4).unwrap_err();
        assert_eq!(looked.raw_os_error(), Some(libc::EINVAL));
        assert!(HashMap::<8, 4>::adopt(other, 256).is_err());
    }
}

#[test]
fn an_array_of_another_process_has_the_length_that_is_said() {
    let array =
        SharedArray::create("ct_io_array", 40).unwrap_or_else(|e| panic!("this test needs root: {e}"));
    let open = |len: usize| SharedArray::open(array.as_fd().try_clone_to_owned().unwrap(), len);
    assert_eq!(open(40).unwrap().words().len(), 40);
    // The last ones would wrap around when they are made bytes.
    for len in [0, 1, 39, 41, 513, 1 << 29, (1 << 61) + 40, usize::MAX] {
        let error = open(len).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // As large as the array, and shortened at any time.
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/zero").unwrap();
    assert!(SharedArray::open(file.into(), 40).is_err());
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
