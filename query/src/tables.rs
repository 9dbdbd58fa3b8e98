//! The tables of a query: those of datasets, and single Parquet files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::ends_in;

/// True for what holds tables: a dataset, or a Parquet file; the rest are captures.
pub fn is_stored(path: &Path) -> bool {
    ends_in(path, "parquet") || !folders(path).is_empty()
}

/// The folders of a dataset's tables, by their names; none if this is no dataset.
fn folders(path: &Path) -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(path.join("v1")).or_else(|_| std::fs::read_dir(path));
    let mut found = BTreeMap::new();
    for folder in entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        let name = folder.file_name().and_then(|name| name.to_str()?.strip_prefix("table="));
        if let Some(name) = name {
            found.insert(name.to_owned(), folder.clone());
        }
    }
    found
}

/// A session with the tables of all `sources`; tables of one name are one table.
pub async fn context(sources: &[PathBuf]) -> Result<SessionContext, String> {
    let config = SessionConfig::new().with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    let mut tables: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for source in sources {
        if ends_in(source, "parquet") && source.is_file() {
            let name = source.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let path = source.to_string_lossy();
            context
                .register_parquet(&name, &*path, ParquetReadOptions::default())
                .await
                .map_err(|error| format!("{path}: {}", error.strip_backtrace()))?;
            continue;
        }
        for (name, folder) in folders(source) {
            tables.entry(name).or_default().push(folder);
        }
    }
    for (name, folders) in tables {
        register(&context, &name, &folders).await.map_err(|error| {
            format!("table {name} in {}: {}", folders[0].display(), error.strip_backtrace())
        })?;
    }
    Ok(context)
}

/// Registers a table that lies in parts below `folders`, by environment and date.
async fn register(context: &SessionContext, name: &str, folders: &[PathBuf]) -> Result<(), DataFusionError> {
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(vec![
            ("env".to_owned(), DataType::Utf8),
            ("date".to_owned(), DataType::Utf8),
        ]);
    let urls: Result<Vec<ListingTableUrl>, DataFusionError> =
        folders.iter().map(|folder| ListingTableUrl::parse(format!("{}/", folder.display()))).collect();
    let config = ListingTableConfig::new_with_multi_paths(urls?)
        .with_listing_options(options)
        .infer_schema(&context.state())
        .await?;
    context.register_table(name, Arc::new(ListingTable::try_new(config)?))?;
    Ok(())
}
