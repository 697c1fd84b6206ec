use std::fs;
use std::path::PathBuf;

use half::f16;
use tempfile::TempDir;

use super::{Array, Elements, Output};

/// The octets of a version 1 file.
fn file(descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut octets = b"\x93NUMPY\x01\x00".to_vec();
    octets.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    octets.extend(header.bytes());
    octets.extend(elements);
    octets
}

fn stored(octets: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.npy");
    fs::write(&path, octets).unwrap();
    (directory, path)
}

fn read(octets: &[u8]) -> anyhow::Result<Array> {
    let (_directory, path) = stored(octets);
    Array::read(&path)
}

fn refusal(octets: &[u8]) -> String {
    format!("{:#}", read(octets).unwrap_err())
}

#[test]
fn reads_both_byte_orders() {
    let little = read(&file("'<f4'", false, "(2,)", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0])).unwrap();
    let big = read(&file("'>f4'", false, "(2,)", &[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0])).unwrap();
    for array in [little, big] {
        let Elements::Float32(elements) = array.elements else { panic!("no float32") };
        assert_eq!(elements, [1.0, -2.0]);
    }
    let Elements::Float16(half) = read(&file("'>f2'", false, "()", &[0x3c, 0])).unwrap().elements else {
        panic!("no float16")
    };
    assert_eq!(half, [f16::ONE]);
    let Elements::Int32(words) = read(&file("'>i4'", false, "(1,)", &[0, 0, 1, 2])).unwrap().elements else {
        panic!("no int32")
    };
    assert_eq!(words, [258]);
}

#[test]
fn what_is_written_is_what_was_read() {
    for (fortran, shape) in [(false, "(2, 1, 3, )"), (true, "(2, 1, 3, )"), (false, "(6,)")] {
        let octets = file("'<i4'", fortran, shape, &(0..24).collect::<Vec<u8>>());
        let (directory, path) = stored(&octets);
        let array = Array::read(&path).unwrap();
        let copy = directory.path().join("b.npy");
        Output::create(&copy).unwrap().write(&array).unwrap();
        let again = Array::read(&copy).unwrap();
        assert_eq!((again.shape, again.order), (array.shape, array.order));
        let (Elements::Int32(before), Elements::Int32(after)) = (array.elements, again.elements) else {
            panic!("no int32")
        };
        assert_eq!(before, after);
    }
}

#[test]
fn a_file_cut_short_is_refused() {
    let whole = file("'<f4'", false, "(3,)", &[0; 12]);
    let elements = whole.len() - 12;
    assert!(
        refusal(&whole[..whole.len() - 1])
            .contains("is cut short: 11 octets of elements, its header says 12")
    );
    for length in [0, 5, 9, 20, elements - 1] {
        assert!(refusal(&whole[..length]).contains("is no .npy file"), "{length} octets");
    }
}

#[test]
fn octets_after_the_elements_are_refused() {
    assert!(refusal(&file("'<f4'", false, "(1,)", &[0; 9])).contains("has 5 octets after its last element"));
}

#[test]
fn other_types_are_refused_by_name() {
    for descr in ["'<f8'", "'<i8'", "'|b1'", "'<c8'", "'<u4'"] {
        let refusal = refusal(&file(descr, false, "(1,)", &[0; 8]));
        assert!(refusal.contains(&format!("of type {descr}; convert it to float32")), "{refusal}");
    }
    assert!(refusal(&file("[('x', '<f4')]", false, "(1,)", &[0; 4])).contains("holds records"));
}

#[test]
fn a_header_that_promises_more_than_is_there_takes_no_memory() {
    let refusal = refusal(&file("'<f4'", false, "(1099511627776,)", &[]));
    assert!(refusal.contains("cut short: 0 octets of elements, its header says 4398046511104"), "{refusal}");
    let long = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes()].concat();
    assert!(self::refusal(&long).contains("its header would have 4294967295 octets"));
}

#[test]
fn a_header_that_is_none_is_refused_in_a_line() {
    let nested = format!("{}{}", "(".repeat(30_000), ")".repeat(30_000));
    for shape in [nested.as_str(), "(-1,)", "3", "(1.5,)", "\n\n"] {
        let refusal = refusal(&file("'<f4'", false, shape, &[]));
        assert!(refusal.contains("is no .npy file"), "{refusal}");
        assert!(refusal.lines().count() == 1 && refusal.len() < 300, "{refusal}");
    }
    let refusal = refusal(&file("'<f4'", false, "(1099511627776, 1099511627776)", &[]));
    assert!(refusal.contains("more elements than any memory holds"), "{refusal}");
}

#[test]
fn d1_another_shape_or_order_has_another_tag() {
    let tag = |fortran, shape| read(&file("'<f4'", fortran, shape, &[0; 24])).unwrap().tag();
    assert_eq!(tag(false, "(6,)"), 0);
    let tags = [tag(false, "(2, 3)"), tag(false, "(3, 2)"), tag(true, "(2, 3)"), tag(false, "(6, 1)")];
    for (i, tag) in tags.iter().enumerate() {
        assert!(*tag != 0 && !tags[..i].contains(tag), "{tags:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_it_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = |path: PathBuf| format!("{:#}", Output::create(&path).unwrap_err());
    assert!(refusal(directory.path().join("missing/b.npy")).contains("no file can be made in"));
    assert!(refusal(directory.path().to_path_buf()).contains("is no file"));
    let locked = directory.path().join("locked.npy");
    fs::write(&locked, "old").unwrap();
    let mut permissions = fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).unwrap();
    assert!(refusal(locked).contains("read-only"));
}

#[test]
fn an_output_that_is_given_up_leaves_the_old_file_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b.npy");
    fs::write(&path, "old").unwrap();
    drop(Output::create(&path).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn i4_a_header_of_many_brackets_is_refused_before_it_is_parsed() {
    for open in ["[('a',", "(", "\n[[{"] {
        let text = refusal(&file(&open.repeat(3000), false, "(1,)", &[0; 4]));
        assert!(text.contains("brackets open at once"), "{text}");
    }
    // What looks like brackets in the elements is none.
    assert_eq!(read(&file("'<i4'", false, "(1000,)", &[b'('; 4000])).unwrap().len(), 1000);
}
