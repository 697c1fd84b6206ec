//! Arrays on disk in numpy's `.npy` format: float32, float16 and int32 of any shape.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use half::f16;
use npyz::{DType, NpyFile, Order, TypeChar, WriterBuilder};
use tempfile::NamedTempFile;

/// Longest header that is read, in octets. That of an array of 32 dimensions, numpy's most, is far shorter.
const LONGEST_HEADER: u32 = 65_536;

/// Most brackets that may be open at once in a header.
const DEEPEST_HEADER: usize = 10;

const CRC32: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// An array as it lies in its file: elements in the order of the file, whatever that order is.
#[derive(Debug)]
pub(crate) struct Array {
    shape: Vec<u64>,
    order: Order,
    pub(crate) elements: Elements,
}

#[derive(Debug)]
pub(crate) enum Elements {
    Float32(Vec<f32>),
    Float16(Vec<f16>),
    Int32(Vec<i32>),
}

impl Array {
    /// Reads a whole file, of either byte order. One that is cut short, or holds elements of another type, is refused
    /// before memory is taken for its elements.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Self::read_checked(path).with_context(|| format!("input {}", path.display()))
    }

    fn read_checked(path: &Path) -> Result<Self> {
        let mut file = File::open(path).context("cannot be opened")?;
        let octets = file.metadata().context("cannot be read")?.len();
        check_header_length(&mut file)?;
        check_header_depth(&mut file)?;
        let mut reader = BufReader::new(file);
        let npy = NpyFile::new(&mut reader).map_err(|error| no_npy(&error))?;
        let (shape, order, dtype) = (npy.shape().to_vec(), npy.order(), npy.dtype());
        let kind = Kind::of(&dtype)?;
        let header = npy.header().clone();
        drop(npy);

        let found = octets - reader.stream_position().context("cannot be read")?;
        let promised =
            shape
                .iter()
                .try_fold(kind.octets(), |product, &length| product.checked_mul(length))
                .with_context(|| format!("has the shape {shape:?}, more elements than any memory holds"))?;
        ensure!(found >= promised, "is cut short: {found} octets of elements, its header says {promised}");
        ensure!(found == promised, "has {} octets after its last element", found - promised);

        let data = NpyFile::with_header(header, reader);
        let elements = match kind {
            Kind::Float32 => data.into_vec().map(Elements::Float32),
            Kind::Float16 => data.into_vec().map(Elements::Float16),
            Kind::Int32 => data.into_vec().map(Elements::Int32),
        };
        Ok(Self { shape, order, elements: elements.context("cannot be read")? })
    }

    pub(crate) fn len(&self) -> usize {
        match &self.elements {
            Elements::Float32(elements) => elements.len(),
            Elements::Float16(elements) => elements.len(),
            Elements::Int32(elements) => elements.len(),
        }
    }

    /// Octets of all elements.
    pub(crate) fn octets(&self) -> u64 {
        let octets = match self.elements {
            Elements::Float32(_) => Kind::Float32.octets(),
            Elements::Float16(_) => Kind::Float16.octets(),
            Elements::Int32(_) => Kind::Int32.octets(),
        };
        self.len() as u64 * octets
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self.elements {
            Elements::Float32(_) => "float32",
            Elements::Float16(_) => "float16",
            Elements::Int32(_) => "int32",
        }
    }

    /// `3x701`; `scalar` for an array without dimensions.
    pub(crate) fn shape_name(&self) -> String {
        if self.shape.is_empty() {
            return "scalar".into();
        }
        self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
    }

    /// The tag of D-1: arrays of as many elements, but another shape or order in the file, are not added up. 0 for
    /// arrays of one dimension, as flat tensors have it.
    pub(crate) fn tag(&self) -> u32 {
        if self.shape.len() == 1 {
            return 0;
        }
        let mut digest = CRC32.digest();
        digest.update(&[u8::from(self.order == Order::Fortran)]);
        for length in &self.shape {
            digest.update(&length.to_be_bytes());
        }
        digest.finalize()
    }
}

/// The element types that are handled.
#[derive(Clone, Copy)]
enum Kind {
    Float32,
    Float16,
    Int32,
}

impl Kind {
    fn of(dtype: &DType) -> Result<Self> {
        let DType::Plain(plain) = dtype else {
            bail!("holds records ({}); use an array of float32, float16 or int32", dtype.descr());
        };
        match (plain.type_char(), plain.size_field()) {
            (TypeChar::Float, 4) => Ok(Self::Float32),
            (TypeChar::Float, 2) => Ok(Self::Float16),
            (TypeChar::Int, 4) => Ok(Self::Int32),
            _ => bail!(
                "holds elements of type {}; convert it to float32 (<f4), float16 (<f2) or int32 (<i4)",
                dtype.descr()
            ),
        }
    }

    fn octets(self) -> u64 {
        match self {
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 => 2,
        }
    }
}

/// What is wrong with the header, in a line: the reader may quote all of it.
fn no_npy(error: &io::Error) -> anyhow::Error {
    let error = error.to_string();
    anyhow!("is no .npy file: {}", error.lines().next().unwrap_or_default())
}

/// The header's length is a number from the file, and the reader takes that much memory at once.
fn check_header_length(file: &mut File) -> Result<()> {
    let mut start = Vec::new();
    file.take(12).read_to_end(&mut start).context("cannot be read")?;
    // Version 1 has a length of 16 bits, which is never too long. What does not begin like this, the reader refuses.
    if let [0x93, b'N', b'U', b'M', b'P', b'Y', version, _, length @ ..] = start.as_slice()
        && *version >= 2
        && let Ok(length) = <[u8; 4]>::try_from(length)
    {
        let length = u32::from_le_bytes(length);
        ensure!(length <= LONGEST_HEADER, "is no .npy file: its header would have {length} octets");
    }
    file.seek(SeekFrom::Start(0)).context("cannot be read")?;
    Ok(())
}

/// The reader's time grows several times with each bracket that is open in a header. Arrays that are handled have two
/// open, and plain records four.
fn check_header_depth(file: &mut File) -> Result<()> {
    let mut start = Vec::new();
    file.take(u64::from(LONGEST_HEADER) + 12).read_to_end(&mut start).context("cannot be read")?;
    let header = match start.as_slice() {
        [_, _, _, _, _, _, 0 | 1, _, low, high, header @ ..] => {
            header.get(..u16::from_le_bytes([*low, *high]).into()).unwrap_or(header)
        }
        [_, _, _, _, _, _, _, _, a, b, c, d, header @ ..] => {
            header.get(..u32::from_le_bytes([*a, *b, *c, *d]) as usize).unwrap_or(header)
        }
        _ => &[], // the reader says what is wrong with it
    };
    let mut depth = 0_usize;
    for octet in header {
        match octet {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        ensure!(depth <= DEEPEST_HEADER, "is no .npy file: its header has {depth} brackets open at once");
    }
    file.seek(SeekFrom::Start(0)).context("cannot be read")?;
    Ok(())
}

/// A file to be written later. That its place can be written is found out now; the file that is there stays as it
/// is until the whole new one can take its place.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    file: NamedTempFile,
}

impl Output {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        Self::create_checked(path).with_context(|| format!("output {}", path.display()))
    }

    fn create_checked(path: &Path) -> Result<Self> {
        // Through a symbolic link to the file that it names.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if let Ok(found) = fs::metadata(&target) {
            ensure!(found.is_file(), "is there, and is no file; name one");
            ensure!(!found.permissions().readonly(), "cannot be written: it is there, and is read-only");
        }
        let name = target.file_name().context("is no file name")?.to_string_lossy().into_owned();
        let directory = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let prefix = format!(".{name}.");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)] // less the umask, as for any new file
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder
            .tempfile_in(directory)
            .with_context(|| format!("cannot be written: no file can be made in {}", directory.display()))?;
        Ok(Self { target, file })
    }

    /// Where the file is until it is complete.
    pub(crate) fn part(&self) -> &Path {
        self.file.path()
    }

    /// Writes the array, and puts it in its place.
    pub(crate) fn write(self, array: &Array) -> Result<()> {
        let context = format!("output {} cannot be written", self.target.display());
        self.write_checked(array).context(context)
    }

    fn write_checked(mut self, array: &Array) -> Result<()> {
        match &array.elements {
            Elements::Float32(elements) => write_elements(&mut self.file, array, elements)?,
            Elements::Float16(elements) => write_elements(&mut self.file, array, elements)?,
            Elements::Int32(elements) => write_elements(&mut self.file, array, elements)?,
        }
        self.file.as_file().sync_all()?;
        self.file.persist(&self.target)?;
        Ok(())
    }
}

fn write_elements<T: npyz::AutoSerialize + Copy>(
    file: &mut NamedTempFile,
    array: &Array,
    elements: &[T],
) -> Result<()> {
    let mut buffered = BufWriter::new(file);
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .order(array.order)
        .shape(&array.shape)
        .writer(&mut buffered)
        .begin_nd()?;
    writer.extend(elements.iter().copied())?;
    writer.finish()?;
    buffered.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
