#include "raw_folder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <utility>

namespace trimtab::test {

RawFolder::RawFolder(const std::string& name) : path_(directory_.file(name)) {
  REQUIRE(std::filesystem::create_directories(path_));
}

void RawFolder::write(const std::string& name, const std::string& text) const {
  write_bytes(path_ + "/" + name, text);
}

std::string RawFolder::read(const std::string& name) const {
  return bytes_of(path_ + "/" + name);
}

void RawFolder::replace(const std::string& name, const std::string& what, const std::string& by) const {
  std::string text = read(name);
  const std::size_t place = text.find(what);
  INFO(name << " must hold " << what);
  REQUIRE(place != std::string::npos);
  write(name, text.replace(place, what.size(), by));
}

void RawFolder::remove(const std::string& name) const {
  REQUIRE(std::filesystem::remove(path_ + "/" + name));
}

Published imported(const std::string& format, const std::vector<std::string>& directories,
                   const ProfileSupplement& supplement) {
  auto published = read_published(format, directories, supplement);
  INFO((published.ok() ? "" : published.error().message));
  REQUIRE(published.ok());
  return std::move(published).value();
}

void refused(const std::string& format, const std::vector<std::string>& directories,
             const std::vector<std::string>& words, const ProfileSupplement& supplement) {
  const auto published = read_published(format, directories, supplement);
  REQUIRE_FALSE(published.ok());
  CHECK(published.error().kind == ErrorKind::kBadInput);
  for (const std::string& word : words) CHECK_THAT(published.error().message, Catch::Contains(word));
}

std::optional<double> value_of(const Published& published, const CostKey& key) {
  for (const PublishedCosts& costs : published.costs) {
    for (const Cost& cost : costs.costs) {
      if (cost.key == key) return cost.statistics.mean();
    }
  }
  return std::nullopt;
}

bool remarked(const Published& published, const std::string& words) {
  return std::any_of(published.remarks.begin(), published.remarks.end(),
                     [&](const std::string& remark) { return remark.find(words) != std::string::npos; });
}

const Model* model_called(const Published& published, const std::string& file) {
  const auto found = std::find_if(published.models.begin(), published.models.end(),
                                  [&](const PublishedModel& one) { return one.file == file; });
  return found == published.models.end() ? nullptr : &found->model;
}

const Cluster* cluster_called(const Published& published, const std::string& file) {
  const auto found = std::find_if(published.clusters.begin(), published.clusters.end(),
                                  [&](const PublishedCluster& one) { return one.file == file; });
  return found == published.clusters.end() ? nullptr : &found->cluster;
}

}  // namespace trimtab::test
