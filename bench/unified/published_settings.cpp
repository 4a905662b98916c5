#include "published_settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

namespace trimtab::bench {

std::optional<Published> published_profile(const std::string& format, const std::string& directory) {
  const char* const set = std::getenv("TRIMTAB_PEERS");
  const std::string root = set != nullptr ? set : TRIMTAB_SOURCE_DIR "/../shared/peers";
  const std::string path = root + "/" + directory;
  if (!std::filesystem::exists(path)) {
    std::fprintf(stderr, "%s is absent: the profile %s is left out\n", path.c_str(), format.c_str());
    return std::nullopt;
  }
  Result<Published> published = read_published(format, {path});
  if (!published.ok()) {
    std::fprintf(stderr, "%s\n", published.error().message.c_str());
    std::exit(3);
  }
  return std::move(published).value();
}

// A cluster belongs to the model whose file's name begins its own.
std::vector<Setting> settings_of(const Published& published) {
  std::vector<Setting> settings;
  for (const PublishedCluster& one : published.clusters) {
    const PublishedModel* of = nullptr;
    for (const PublishedModel& model : published.models) {
      const std::string stem = model.file.substr(0, model.file.size() - std::strlen(".json"));
      const bool fits = one.file.starts_with(stem + ".") || one.file.starts_with(stem + "-");
      if (fits && (of == nullptr || model.file.size() > of->file.size())) of = &model;
    }
    if (of == nullptr) continue;
    std::set<std::string> wanted;
    for (const Node& node : one.cluster.nodes) wanted.insert(node.fingerprint);
    Setting setting{one.file, &of->model, &one.cluster, {}};
    for (const PublishedCosts& costs : published.costs) {
      if (!wanted.contains(hash(costs.fingerprint))) continue;
      setting.costs.insert(setting.costs.end(), costs.costs.begin(), costs.costs.end());
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace trimtab::bench
