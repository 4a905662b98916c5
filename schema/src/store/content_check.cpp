#include "store/content_check.hpp"

#include <algorithm>

#include "base/text_parts.hpp"

namespace trimtab {

namespace {

constexpr std::int64_t kMostAtOnce = 256;

std::string places(const std::vector<std::string>& key) {
  return "(" + joined(std::vector<std::string>(key.size(), "?")) + ")";
}

}  // namespace

void ContentCheck::step(const Reader& reader, const Clock& clock, Nanoseconds time) {
  const Nanoseconds begin = clock.monotonic();
  while (!done()) {
    const Nanoseconds before = clock.monotonic();
    const Status read = read_some(reader);
    // Damage that keeps its page from being read is the reader's to tell; what only hinders now is tried again.
    if (!read.ok() && read.error().kind == ErrorKind::kBadInput) table_ = tables_.size();
    if (!read.ok()) return;
    const Nanoseconds now = clock.monotonic();
    // Rows are of bytes or of megabytes.
    if (now - before > time / 2) at_once_ = std::max<std::int64_t>(at_once_ / 2, 1);
    if (now - before < time / 8) at_once_ = std::min(at_once_ * 2, kMostAtOnce);
    if (now - begin >= time) return;
  }
}

Status ContentCheck::read_some(const Reader& reader) {
  const CheckedTable& table = tables_[table_];
  if (key_.empty()) TRIMTAB_TRY_STATUS(find_key(reader));
  const std::string key = joined(key_);
  const std::string from = after_.empty() ? "" : " WHERE (" + key + ") > " + places(key_);
  Row arguments = after_;
  arguments.emplace_back(at_once_);
  TRIMTAB_TRY(const Rows last,
              reader.query("SELECT " + key + " FROM (SELECT " + key + " FROM " + table.name + from + " ORDER BY " +
                               key + " LIMIT ?) ORDER BY " + joined(key_, " DESC, ") + " DESC LIMIT 1",
                           arguments));
  if (last.empty()) {
    ++table_;
    key_.clear();
    after_.clear();
    return {};
  }
  arguments.pop_back();
  arguments.insert(arguments.end(), last.front().begin(), last.front().end());
  const std::string up_to = (from.empty() ? " WHERE (" : from + " AND (") + key + ") <= " + places(key_);
  TRIMTAB_TRY(const CheckedRows found,
              reader.query_checked("SELECT " + columns_of(table) + ", checksum FROM " + table.name + up_to, arguments));
  rows_ += found.rows.size() + found.damaged.size();
  after_ = last.front();
  return {};
}

Status ContentCheck::find_key(const Reader& reader) {
  TRIMTAB_TRY(const Rows columns,
              reader.query("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", {tables_[table_].name}));
  for (const Row& column : columns) key_.push_back(as_text(column.front()));
  if (key_.empty()) key_ = {"rowid"};
  return {};
}

}  // namespace trimtab
