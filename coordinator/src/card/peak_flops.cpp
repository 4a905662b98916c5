#include "card/peak_flops.hpp"

#include <array>

namespace trimtab::coordinator {

namespace {

// The first whose words are both in the name counts.
struct Peak {
  std::string_view word;
  std::string_view second;
  double tera;  // 1e12 operations a second on float16 or bfloat16, summed up in float32
  bool bfloat16 = true;
};

constexpr std::array kPeaks = {
    Peak{"H100", "NVL", 835},     Peak{"H100", "PCIe", 756}, Peak{"H100", "", 989},  // SXM, "NVIDIA H100 80GB HBM3"
    Peak{"H200", "NVL", 835},     Peak{"H200", "", 989},     Peak{"B200", "", 2250},
    Peak{"A100", "", 312},        Peak{"A10", "", 125},      Peak{"V100", "PCI", 112, false},
    Peak{"V100", "", 125, false},  // SXM2
    Peak{"L40S", "", 362},        Peak{"L4", "", 121},       Peak{"RTX 4090", "", 165.2},
    Peak{"MI300X", "", 1307.4},   Peak{"MI250X", "", 191.5},  // one of its two dies, which is what PyTorch calls a
                                                              // device
};

// As a word: "L4" is not in "L40S", "A10" not in "A100".
bool has_word(std::string_view name, std::string_view word) {
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_part(name[at - 1])) && (end == name.size() || !is_part(name[end]))) return true;
  }
  return false;
}

}  // namespace

std::optional<double> peak_flops(std::string_view device_name, std::string_view dtype) {
  if (dtype != "float16" && dtype != "bfloat16") return {};
  for (const Peak& peak : kPeaks) {
    if (!has_word(device_name, peak.word) || device_name.find(peak.second) == std::string_view::npos) continue;
    return dtype == "bfloat16" && !peak.bfloat16 ? std::nullopt : std::optional(peak.tera * 1e12);
  }
  return {};
}

}  // namespace trimtab::coordinator
