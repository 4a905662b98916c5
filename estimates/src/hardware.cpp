#include "estimates/hardware.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

namespace trimtab::estimates {

namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kGib = 1024.0 * 1024 * 1024;

// The third root of a ratio of powers.
constexpr double capped(double watts, double of_watts) {
  double root = 1;
  for (int i = 0; i < 30; ++i) root -= (root * root * root - watts / of_watts) / (3 * root * root);
  return root;
}

constexpr Bytes gib(double value) {
  return static_cast<Bytes>(value * kGib);
}

// A process may use what the driver reports as the device's memory: about half a GiB less than the sheet's. Where a
// sheet gives GB of 10^9 bytes, and the device has more (A100-80GB: 79.2 GiB, H100-80GB: 79.1 GiB), the device's
// counts.
constexpr std::array kGpus = {
    Gpu{"V100-SXM2-16GB", Generation::kVolta, 125 * kTera, 0, gib(15.8), 900 * kGiga, 150 * kGiga, 16 * kGiga, 80, 8,
        300, 1, false, "NVIDIA V100 data sheet, 2020-01"},
    Gpu{"V100-SXM2-32GB", Generation::kVolta, 125 * kTera, 0, gib(31.7), 900 * kGiga, 150 * kGiga, 16 * kGiga, 80, 8,
        300, 1, false, "NVIDIA V100 data sheet, 2020-01"},
    Gpu{"A100-SXM4-40GB", Generation::kAmpere, 312 * kTera, 0, gib(39.4), 1555 * kGiga, 300 * kGiga, 32 * kGiga, 108, 8,
        400, 1, true, "NVIDIA A100 data sheet, 2021-06"},
    Gpu{"A100-SXM4-80GB", Generation::kAmpere, 312 * kTera, 0, gib(79.2), 2039 * kGiga, 300 * kGiga, 32 * kGiga, 108, 8,
        400, 1, true, "NVIDIA A100 data sheet, 2021-06"},
    Gpu{"A100-PCIe-40GB", Generation::kAmpere, 312 * kTera, 0, gib(39.4), 1555 * kGiga, 0, 32 * kGiga, 108, 8, 250,
        capped(250, 400), true, "NVIDIA A100 data sheet, 2021-06"},
    Gpu{"A100-PCIe-80GB", Generation::kAmpere, 312 * kTera, 0, gib(79.2), 1935 * kGiga, 0, 32 * kGiga, 108, 8, 300,
        capped(300, 400), true, "NVIDIA A100 data sheet, 2021-06"},
    Gpu{"A800-SXM4-80GB", Generation::kAmpere, 312 * kTera, 0, gib(79.2), 2039 * kGiga, 200 * kGiga, 32 * kGiga, 108, 8,
        400, 1, true, "NVIDIA A800 data sheet, 2022-11"},
    Gpu{"A10", Generation::kAmpere, 125 * kTera, 0, gib(22.0), 600 * kGiga, 0, 32 * kGiga, 72, 8, 150, 1, true,
        "NVIDIA A10 data sheet, 2021-03"},
    Gpu{"H100-SXM5-80GB", Generation::kHopper, 989.4 * kTera, 1978.9 * kTera, gib(79.1), 3350 * kGiga, 450 * kGiga,
        64 * kGiga, 132, 8, 700, 1, true, "NVIDIA H100 data sheet, 2023-03, without sparsity"},
    Gpu{"H100-PCIe-80GB", Generation::kHopper, 756 * kTera, 1513 * kTera, gib(79.1), 2000 * kGiga, 0, 64 * kGiga, 114,
        8, 350, capped(350, 700), true, "NVIDIA H100 data sheet, 2023-03, without sparsity"},
    Gpu{"H100-NVL-94GB", Generation::kHopper, 835 * kTera, 1671 * kTera, gib(93.1), 3900 * kGiga, 300 * kGiga,
        64 * kGiga, 132, 2, 400, capped(400, 700), true, "NVIDIA H100 data sheet, 2024-09, without sparsity"},
    Gpu{"H100-96GB-HBM2e-500W", Generation::kHopper, 989.4 * kTera, 1978.9 * kTera, gib(95.0), 2400 * kGiga,
        450 * kGiga, 64 * kGiga, 132, 8, 500, capped(500, 700), true,
        "torchtitan's description of its machines, 2024-12"},
    Gpu{"H800-SXM5-80GB", Generation::kHopper, 989.4 * kTera, 1978.9 * kTera, gib(79.1), 3350 * kGiga, 200 * kGiga,
        64 * kGiga, 132, 8, 700, 1, true, "NVIDIA H800 data sheet, 2023-03, without sparsity"},
    Gpu{"H20-SXM5-96GB", Generation::kHopper, 148 * kTera, 296 * kTera, gib(95.1), 4000 * kGiga, 450 * kGiga,
        64 * kGiga, 78, 8, 400, 1, true, "NVIDIA H20 data sheet, 2023-11, without sparsity"},
    Gpu{"H200-SXM5-141GB", Generation::kHopper, 989.4 * kTera, 1978.9 * kTera, gib(139.8), 4800 * kGiga, 450 * kGiga,
        64 * kGiga, 132, 8, 700, 1, true, "NVIDIA H200 data sheet, 2023-11, without sparsity"},
    Gpu{"GH200-96GB-HBM3", Generation::kHopper, 989.4 * kTera, 1978.9 * kTera, gib(94.5), 4000 * kGiga, 450 * kGiga,
        450 * kGiga, 132, 1, 1000, 1, true, "NVIDIA GH200 data sheet, 2023-08, without sparsity"},
    Gpu{"GH200-141GB-HBM3e", Generation::kHopper, 989.4 * kTera, 1978.9 * kTera, gib(139.8), 4900 * kGiga, 450 * kGiga,
        450 * kGiga, 132, 2, 1000, 1, true, "NVIDIA GH200 data sheet, 2023-08, without sparsity"},
    Gpu{"B200-SXM", Generation::kBlackwell, 2250 * kTera, 4500 * kTera, gib(178.3), 8000 * kGiga, 900 * kGiga,
        64 * kGiga, 148, 8, 1000, 1, true, "NVIDIA DGX B200 data sheet, 2024-03, an eighth, without sparsity"},
    Gpu{"B300-SXM", Generation::kBlackwell, 2250 * kTera, 4500 * kTera, gib(267.0), 8000 * kGiga, 900 * kGiga,
        64 * kGiga, 148, 8, 1400, 1, true, "NVIDIA HGX B300 data sheet, 2025-03, an eighth, without sparsity"},
    Gpu{"GB200", Generation::kBlackwell, 2500 * kTera, 5000 * kTera, gib(184.0), 8000 * kGiga, 900 * kGiga, 450 * kGiga,
        152, 72, 1200, 1, true, "NVIDIA GB200 NVL72 data sheet, 2024-03, a 72nd, without sparsity"},
    Gpu{"GB300", Generation::kBlackwell, 2500 * kTera, 5000 * kTera, gib(276.0), 8000 * kGiga, 900 * kGiga, 450 * kGiga,
        152, 72, 1400, 1, true, "NVIDIA GB300 NVL72 data sheet, 2025-03, a 72nd, without sparsity"},
    Gpu{"L4", Generation::kAda, 121 * kTera, 242 * kTera, gib(22.0), 300 * kGiga, 0, 32 * kGiga, 58, 8, 72, 1, true,
        "NVIDIA L4 data sheet, 2023-03, without sparsity"},
    Gpu{"L40S", Generation::kAda, 362 * kTera, 733 * kTera, gib(44.5), 864 * kGiga, 0, 32 * kGiga, 142, 8, 350, 1, true,
        "NVIDIA L40S data sheet, 2023-08, without sparsity"},
    Gpu{"RTX-4090", Generation::kAda, 165.2 * kTera, 330.3 * kTera, gib(23.5), 1008 * kGiga, 0, 32 * kGiga, 128, 8, 450,
        1, true, "NVIDIA Ada architecture paper, 2022, float32 sums, without sparsity"},
    Gpu{"RTX-3090", Generation::kAmpere, 71 * kTera, 0, gib(23.5), 936 * kGiga, 0, 32 * kGiga, 82, 8, 350, 1, true,
        "NVIDIA GA102 architecture paper, 2020, float32 sums, without sparsity"},
    Gpu{"MI250X", Generation::kOther, 191.5 * kTera, 0, gib(63.9), 1600 * kGiga, 100 * kGiga, 32 * kGiga, 110, 8, 280,
        1, true, "AMD MI250X data sheet, 2021-11, one of its two dies"},
    Gpu{"MI300X", Generation::kOther, 1307.4 * kTera, 2614.9 * kTera, gib(191.5), 5300 * kGiga, 448 * kGiga, 64 * kGiga,
        304, 8, 750, 1, true, "AMD MI300X data sheet, 2023-12, without sparsity"},
    Gpu{"MI355X", Generation::kOther, 2500 * kTera, 5000 * kTera, gib(287.0), 8000 * kGiga, 537 * kGiga, 64 * kGiga,
        256, 8, 1400, 1, true, "AMD MI355X data sheet, 2025-06, without sparsity"},
};

// Letters and digits alone, small, without words that say nothing.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : plain(name) + " ") {
    if (c != ' ') {
      word += c;
      continue;
    }
    if (!word.empty() && word != "nvidia" && word != "amd" && word != "geforce" && word != "tesla") {
      words.push_back(word);
    }
    word.clear();
  }
  return words;
}

// "sxm" is in "sxm5", "80gb" in "80gb".
bool says(const std::vector<std::string>& known, const std::string& word) {
  return std::ranges::any_of(known, [&](const std::string& one) {
    return one == word || (word == "sxm" && one.starts_with("sxm")) || (word + "gb" == one) ||
           (word.starts_with("sxm") && one.starts_with("sxm"));
  });
}

// The one that people mean by a bare name.
constexpr std::array kUsual = {"V100-SXM2-32GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "GH200-96GB-HBM3"};

std::string known_names() {
  std::string all;
  for (const Gpu& gpu : kGpus) all += (all.empty() ? "" : ", ") + std::string(gpu.name);
  return all;
}

constexpr double kMostNumber = 1e6;  // devices, links, Gbit/s

std::optional<double> leading_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !(value > 0) || !(value <= kMostNumber)) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

double peak_flops(const Gpu& gpu, Precision precision) {
  return precision == Precision::kFloat8 && gpu.float8_flops > 0 ? gpu.float8_flops : gpu.half_flops;
}

std::span<const Gpu> gpus() {
  return kGpus;
}

Result<Gpu> gpu_by_name(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  std::vector<const Gpu*> fitting;
  for (const Gpu& gpu : kGpus) {
    const std::vector<std::string> known = words_of(gpu.name);
    if (!words.empty() && std::ranges::all_of(words, [&](const std::string& word) { return says(known, word); })) {
      fitting.push_back(&gpu);
    }
  }
  if (fitting.empty())
    return bad_input("GPU '" + std::string(name) + "': none of that name is known. Known are " + known_names());
  for (const Gpu* gpu : fitting) {
    if (std::ranges::find(kUsual, gpu->name) != kUsual.end()) return *gpu;
  }
  return *fitting.front();
}

double usual_network(const Gpu& gpu) {
  switch (gpu.generation) {
    case Generation::kVolta:
      return 100 / 8.0 / 2 * kGiga;
    case Generation::kAmpere:
      return 200 / 8.0 * kGiga;
    case Generation::kHopper:
      return 400 / 8.0 * kGiga;
    case Generation::kBlackwell:
      return 400 / 8.0 * kGiga;
    case Generation::kAda:
      return 100 / 8.0 / 4 * kGiga;
    case Generation::kOther:
      return 400 / 8.0 * kGiga;
  }
  return 25 * kGiga;
}

Result<Network> network_by_name(std::string_view words, std::int32_t devices_per_node) {
  const auto refused = [&] {
    return bad_input("network '" + std::string(words) +
                     "': expected links of a node and Gbit/s of each, such as 8x400G or 1x100G, or Gbit/s for each "
                     "device, such as 400G. Behind it may stand InfiniBand, RoCE, EFA, Ethernet or Omni-Path");
  };
  std::string_view rest = words;
  const std::optional<double> first = leading_number(rest);
  if (!first) return refused();
  double gbits = *first;
  if (rest.starts_with("x")) {
    rest.remove_prefix(1);
    const std::optional<double> second = leading_number(rest);
    if (!second) return refused();
    gbits = *first * *second / devices_per_node;
  }
  double unit = 1;
  if (rest.starts_with("GB")) {
    rest.remove_prefix(2);
    unit = 8;  // bytes
  } else if (rest.starts_with("Gb") || rest.starts_with("G")) {
    rest.remove_prefix(rest.starts_with("Gb") ? 2 : 1);
    if (rest.starts_with("it")) rest.remove_prefix(2);
  } else {
    return refused();
  }
  if (rest.starts_with("/s") || rest.starts_with("ps")) rest.remove_prefix(2);
  gbits *= unit;
  Network network{.bandwidth = gbits / 8 * kGiga, .stated = true};
  const std::string kind = plain(rest);
  const auto has = [&](std::string_view word) { return kind.find(word) != std::string::npos; };
  if (has("efa")) {
    network.kind = NetworkKind::kEfa;
  } else if (has("roce") || has("ethernet")) {
    network.kind = NetworkKind::kRoce;
  } else if (has("omni")) {
    network.kind = NetworkKind::kOmniPath;
  } else if (has("infiniband") || kind.find_first_not_of(' ') == std::string::npos) {
    network.kind = NetworkKind::kInfiniBand;
  } else {
    return refused();
  }
  return network;
}

Result<Machine> machine_by_name(std::string_view devices, std::string_view network) {
  std::string_view rest = devices;
  const std::optional<double> count = leading_number(rest);
  if (!count || !rest.starts_with("x") || *count != static_cast<double>(static_cast<std::int32_t>(*count))) {
    return bad_input("'" + std::string(devices) + "': expected a number of devices and a GPU's name, such as 64xH100");
  }
  Machine machine;
  TRIMTAB_TRY(machine.gpu, gpu_by_name(rest.substr(1)));
  machine.devices = static_cast<std::int32_t>(*count);
  machine.devices_per_node = std::min(machine.devices, machine.gpu.linked);
  if (machine.gpu.linked < 8) machine.devices_per_node = std::min(machine.devices, 8);
  if (network.empty()) {
    machine.network = {.bandwidth = usual_network(machine.gpu)};
  } else {
    TRIMTAB_TRY(machine.network, network_by_name(network, machine.devices_per_node));
  }
  return machine;
}

}  // namespace trimtab::estimates
