#include "published/galvatron/known.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "published/text_file.hpp"

namespace trimtab::published {

const GalvatronKnownModel* galvatron_known_model(const std::string& name) {
  // model_configs/ of the newest version, meta_configs/ and the READMEs of the versions before.
  static const std::vector<GalvatronKnownModel> kModels{
      {"gpt-0.3b", 1024, {1024}, {24}},
      {"gpt-1.5b", 1024, {1600}, {48}},
      {"gpt-2.7b", 2048, {2560}, {32}},
      {"gpt-6.7b", 2048, {4096}, {32}},
      {"gpt2-small", 0, {768}, {12}},
      {"gpt2-xl", 0, {1600}, {48}},
      {"llama-7b", 2048, {4096}, {32}},
      {"llama-13b", 0, {5120}, {40}},
      {"llama2-7b", 0, {4096}, {32}},
      {"llama2-70b", 0, {8192}, {80}},
      {"baichuan-7b", 2048, {4096}, {32}},
      {"mistral-7b", 0, {4096}, {32}},
      {"mixtral-8x7b", 0, {4096}, {32}},
      {"qwen2.5-7b", 0, {3584}, {28}},
      {"qwen2.5-72b", 0, {8192}, {80}},
      {"t5-3B", 0, {1024, 1024}, {24, 24}},
      {"swin-huge", 0, {320, 640, 1280, 2560}, {2, 2, 42, 2}},
  };
  const auto found = std::find_if(kModels.begin(), kModels.end(),
                                  [&](const GalvatronKnownModel& model) { return name == model.name; });
  return found == kModels.end() ? nullptr : &*found;
}

std::string galvatron_directory_family(const std::string& directory) {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::weakly_canonical(directory, failure);
  if (path.filename() != "configs") return "";
  const std::string family = path.parent_path().filename().string();
  return fit_for_a_file_name(family) ? family : "";
}

GalvatronFamily galvatron_family(const std::string& model, const std::string& directory) {
  std::string text = galvatron_directory_family(directory) + " " + model;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (has("bert")) return GalvatronFamily::kBert;
  if (has("t5")) return GalvatronFamily::kT5;
  if (has("swin")) return GalvatronFamily::kSwin;
  return has("vit") ? GalvatronFamily::kVit : GalvatronFamily::kGpt;
}

}  // namespace trimtab::published
