#pragma once

// The models that Galvatron came with, as its model configurations state them.

#include <cstdint>
#include <string>
#include <vector>

#include "schema/model.hpp"

namespace trimtab::published {

struct GalvatronKnownModel {
  const char* name;
  std::int64_t sequence;             // 0: as the profile says
  std::vector<std::int64_t> hidden;  // of each kind of layer
  std::vector<std::int32_t> layers;  // likewise
};

// Null where it is not one of them.
[[nodiscard]] const GalvatronKnownModel* galvatron_known_model(const std::string& name);

// By the model's name, or that of the directory that its files lie in ("models/bert_hf/configs").
[[nodiscard]] GalvatronFamily galvatron_family(const std::string& model, const std::string& directory);

// "gpt" of ".../models/gpt/configs"; empty elsewhere.
[[nodiscard]] std::string galvatron_directory_family(const std::string& directory);

}  // namespace trimtab::published
