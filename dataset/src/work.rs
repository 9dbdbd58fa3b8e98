//! Series in a place, and the work on one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use capture::{Reader, decompressed};
use datasets::{
    MANIFEST_SCHEMA, RECORD_SCHEMA, Record, RecordedFile, Series, Settings, is_capture, series_key,
};
use object_store::ObjectMeta;
use report::series_run;
use tokio::process::Command;

use crate::place::{Failure, Place};

/// A series whose files are objects.
pub struct Found {
    /// Its `files` are names within the place.
    pub series: Series,
    place: Place,
    objects: Vec<(String, ObjectMeta)>,
}

/// What a series came to.
pub enum Done {
    /// Its results were there.
    Before,
    /// It was analyzed: so many flows.
    Now(u64),
}

/// Bytes of a file in which its first packet is looked for.
const HEAD: u64 = 256 << 10;

/// The series below a place, named as [`datasets::find`] names them.
pub async fn find(place: &Place, env: &str) -> Result<Vec<Found>, Failure> {
    let mut groups: BTreeMap<String, Vec<(String, ObjectMeta)>> = BTreeMap::new();
    for (name, object) in place.list().await? {
        let path = Path::new(&name);
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        let is_hidden = path.iter().any(|part| part.to_string_lossy().starts_with('.'));
        if is_capture(&file) && !is_hidden {
            let folder = path.parent().unwrap_or(Path::new(""));
            let key = Path::new(&place.name()).join(folder).join(series_key(&file));
            groups.entry(key.to_string_lossy().into_owned()).or_default().push((name, object));
        }
    }
    if groups.is_empty() {
        let why = format!("{}: no captures below this (.pcap, .pcapng, .cap, .dmp, …)", place.url);
        return Err(Failure::Series(why));
    }
    let mut all = Vec::new();
    for (name, mut objects) in groups {
        if objects.len() > 1 {
            let mut timed = Vec::new();
            for (name, object) in objects {
                let head = place.head_of(&name, object.size, HEAD).await?;
                timed.push((first_packet(head), name, object));
            }
            timed.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            objects = timed.into_iter().map(|(_, name, object)| (name, object)).collect();
        }
        let bytes = objects.iter().map(|(_, object)| object.size).sum();
        let files = objects.iter().map(|(name, _)| PathBuf::from(name)).collect();
        let series = Series { name, env: env.to_owned(), files, bytes };
        all.push(Found { series, place: Place::open(&place.url)?, objects });
    }
    Ok(all)
}

/// As of [`datasets::find`].
fn first_packet(head: Vec<u8>) -> u64 {
    let read = || {
        let stream = decompressed(std::io::Cursor::new(head)).ok()?;
        let mut reader = Reader::new(stream).ok()?;
        reader.advance().ok()?.then(|| reader.current().map(|record| record.time.as_nanos()))?
    };
    read().unwrap_or(u64::MAX)
}

/// What all series have in common.
pub struct Work<'a> {
    pub to: &'a Place,
    pub program: &'a Path,
    pub settings: &'a Settings,
}

impl Work<'_> {
    /// Analyzes a series, unless its results are there.
    pub async fn one(&self, found: &Found) -> Result<Done, Failure> {
        let series = &found.series;
        let now = self.record(found);
        let place = format!("v1/series/{}.json", series_run(&series.env, &series.name));
        let before: Option<Record> =
            self.to.get(&place).await?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(before) = &before {
            if before.is_of(&now) && self.has_all(before).await? {
                return Ok(Done::Before);
            }
            self.refuse_another(before, &now, found).await?;
        }
        let folder =
            tempfile::tempdir().map_err(|error| format!("no folder for captures can be made: {error}"))?;
        let made = self.analyze(found, folder.path()).await?;
        for part in &made.parts {
            let name = part.to_string_lossy();
            let file = folder.path().join("dataset").join(part);
            let bytes =
                tokio::fs::read(&file).await.map_err(|error| format!("{}: {error}", file.display()))?;
            self.to.put(&name, bytes).await?;
        }
        for gone in before.iter().flat_map(|before| &before.parts).filter(|part| !made.parts.contains(part)) {
            self.to.remove(&gone.to_string_lossy()).await?;
        }
        let record = Record { flows: made.flows, parts: made.parts, ..now };
        let text = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())? + "\n";
        self.to.put(&place, text.into_bytes()).await?;
        Ok(Done::Now(record.flows))
    }

    /// The record of a series as its objects are now, without results.
    fn record(&self, found: &Found) -> Record {
        let file = |(name, object): &(String, ObjectMeta)| RecordedFile {
            file: PathBuf::from(format!("{}/{name}", found.place.url)),
            bytes: object.size,
            modified_ns: object
                .last_modified
                .timestamp_nanos_opt()
                .and_then(|time| u64::try_from(time).ok())
                .unwrap_or_default(),
            identity: object.e_tag.clone().unwrap_or_default(),
        };
        Record {
            schema: RECORD_SCHEMA.to_owned(),
            name: found.series.name.clone(),
            env: found.series.env.clone(),
            settings: self.settings.clone(),
            files: found.objects.iter().map(file).collect(),
            flows: 0,
            parts: Vec::new(),
        }
    }

    async fn has_all(&self, record: &Record) -> Result<bool, Failure> {
        for part in &record.parts {
            if !self.to.has(&part.to_string_lossy()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses a series whose name the dataset has from another place that still has it.
    async fn refuse_another(&self, before: &Record, now: &Record, found: &Found) -> Result<(), Failure> {
        let is_ours = |file: &&RecordedFile| now.files.iter().any(|own| own.file == file.file);
        let Some(first) = before.files.first().filter(|_| !before.files.iter().any(|file| is_ours(&file)))
        else {
            return Ok(());
        };
        let other = first.file.to_string_lossy().into_owned();
        let is_below = other.strip_prefix(&format!("{}/", found.place.url));
        let is_there = match (is_below, other.rsplit_once('/')) {
            // Another file of the same place: the series has other files now.
            (Some(_), _) => false,
            (None, Some((folder, name))) if other.contains("://") => Place::open(folder)?.has(name).await?,
            _ => Path::new(&other).exists(),
        };
        match is_there {
            true => Err(format!("the dataset has another series of this name, from {other}").into()),
            false => Ok(()),
        }
    }

    /// Fetches the files and runs the program; its record has the parts.
    async fn analyze(&self, found: &Found, folder: &Path) -> Result<Record, Failure> {
        let mut files = Vec::new();
        for (number, (name, _)) in found.objects.iter().enumerate() {
            // Their own names, in folders of their own: two objects may differ in their folders only.
            let own = Path::new(name).file_name().unwrap_or_default();
            let file = Path::new("captures").join(number.to_string()).join(own);
            let whole = folder.join(&file);
            let parent = whole.parent().unwrap_or(folder);
            tokio::fs::create_dir_all(parent).await.map_err(|e| format!("{}: {e}", parent.display()))?;
            found.place.fetch(name, &whole).await?;
            files.push(file);
        }
        let manifest = serde_json::json!({
            "schema": MANIFEST_SCHEMA,
            "series": [{ "name": found.series.name, "env": found.series.env, "files": files }],
        });
        let list = folder.join("manifest.json");
        tokio::fs::write(&list, manifest.to_string())
            .await
            .map_err(|e| format!("{}: {e}", list.display()))?;
        let dataset = folder.join("dataset");
        let mut command = Command::new(self.program);
        command.args(["analyze", "--threads", "1", "--idle", &self.settings.idle_s.to_string()]);
        if self.settings.one_point {
            command.arg("--one-point");
        }
        command.arg("--parquet").arg(&dataset).arg("--manifest").arg(&list);
        let out = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let out = out.map_err(|error| format!("{}: cannot be run: {error}", self.program.display()))?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let why = said.lines().find_map(|line| line.strip_prefix("cellerator: "));
            return Err(Failure::Series(why.unwrap_or("the analysis failed").to_owned()));
        }
        Record::read(&dataset, &found.series).ok_or_else(|| "the analysis left no record".to_owned().into())
    }
}
