#include "estimated/asked.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "arguments.hpp"
#include "base/text_parts.hpp"
#include "estimated/measured.hpp"
#include "estimates/request.hpp"
#include "files.hpp"
#include "schema/hf_model.hpp"
#include "schema/launch_script.hpp"
#include "schema/megatron_model.hpp"
#include "schema/models/parameters.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using estimates::Machine;
using estimates::Precision;
using estimates::Recomputed;
using estimates::Word;

constexpr std::int64_t kUsualTokens = 4 << 20;  // of a step
constexpr std::int64_t kUsualSequence = 8192;
constexpr std::int64_t kMost = 1 << 22;  // samples, tokens of one, and devices

constexpr std::array kPrecisions{Word{"bf16", Precision::kBfloat16}, Word{"fp16", Precision::kFloat16},
                                 Word{"fp8", Precision::kFloat8}};

template <typename Words>
std::vector<std::string_view> known(const Words& words) {
  std::vector<std::string_view> names;
  for (const auto& one : words) names.push_back(one.word);
  return names;
}

Result<std::int64_t> count_of(const std::string& flag, const std::string& text) {
  TRIMTAB_TRY(const std::uint64_t value, parse_count(flag, text));
  if (value > 0 && value <= std::uint64_t{kMost}) return static_cast<std::int64_t>(value);
  return bad_input(flag + ": expected 1 to " + std::to_string(kMost) + ", found " + text);
}

// 0: not said.
Result<std::int64_t> optional_count(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::int64_t{0};
  return count_of(flag, text);
}

// "32,64,128xH100": a machine of each size.
Result<std::vector<Machine>> machines_of(const AskedFlags& flags) {
  if (flags.gpus.empty()) return bad_input("--gpus: needed: how many of which GPU, such as 64xH100 or 32,64,128xH100");
  const std::size_t name = flags.gpus.find('x');
  if (name == std::string::npos || name == 0) {
    return bad_input("--gpus: expected how many of which GPU, such as 64xH100 or 32,64,128xH100, found '" + flags.gpus +
                     "'");
  }
  std::vector<Machine> machines;
  for (const std::string_view count : parted(std::string_view(flags.gpus).substr(0, name))) {
    TRIMTAB_TRY(const std::int64_t devices, count_of("--gpus", std::string(count)));
    auto machine = estimates::machine_by_name(std::to_string(devices) + flags.gpus.substr(name), flags.network);
    if (!machine.ok()) return machine.error();
    machines.push_back(std::move(machine).value());
  }
  std::ranges::sort(machines, {}, &Machine::devices);
  return machines;
}

std::string name_of(const AskedFlags& flags) {
  if (!flags.name.empty()) return flags.name;
  const std::filesystem::path path(flags.hf.empty() ? flags.megatron : flags.hf);
  const std::string folder = path.parent_path().filename().string();
  const bool usual = path.filename() == "config.json" && !folder.empty() && folder != "." && folder != "..";
  return usual ? folder : path.stem().string();
}

bool has_option(const std::vector<std::string>& words, std::string_view option) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return word == option || word.starts_with(std::string(option) + "="); });
}

// What is said on the command line stands behind the file's own words, so it counts. Sizes without a batch have 0.
Result<GptSizes> sizes_of_megatron(const AskedFlags& flags) {
  TRIMTAB_TRY(const std::string text, read_file(flags.megatron));
  TRIMTAB_TRY(LaunchWords found, launch_words(text, flags.megatron, "--num-layers", files_beside(flags.megatron)));
  std::vector<std::string>& words = found.words;
  if (!flags.sequence.empty()) words.insert(words.end(), {"--seq-length", flags.sequence});
  if (!flags.batch.empty()) words.insert(words.end(), {"--global-batch-size", flags.batch});
  const bool batch = has_option(words, "--global-batch-size");
  if (!batch) words.insert(words.end(), {"--global-batch-size", "1"});
  auto sizes = sizes_from_megatron(words, flags.neutral);
  if (!sizes.ok()) return wrap(flags.megatron, sizes.error());
  if (!batch) sizes->sizes.batch = 0;
  return sizes->sizes;
}

Result<GptSizes> sizes_of_hf(const AskedFlags& flags) {
  HfTraining training;
  TRIMTAB_TRY(training.sequence, optional_count("--sequence", flags.sequence));
  TRIMTAB_TRY(training.global_batch, optional_count("--global-batch", flags.batch));
  TRIMTAB_TRY(const std::string text, read_file(flags.hf));
  return sizes_from_hf(text, flags.hf, training);
}

// As many samples as are about 4 Mi tokens, and one for each device or more.
std::int64_t usual_batch(std::int64_t sequence, std::int64_t devices) {
  std::int64_t samples = 1;
  while (samples * sequence < kUsualTokens || samples < devices) samples *= 2;
  return samples;
}

void assume(GptSizes& sizes, std::int32_t devices, std::vector<std::string>& assumed) {
  if (sizes.sequence == 0) {
    sizes.sequence = sizes.longest > 0 ? std::min(sizes.longest, kUsualSequence) : kUsualSequence;
    assumed.push_back("samples of " + std::to_string(sizes.sequence) + " tokens (--sequence)");
  }
  if (sizes.batch == 0) {
    sizes.batch = usual_batch(sizes.sequence, devices);
    assumed.push_back(std::to_string(sizes.batch) + " samples a step (--global-batch)");
  }
}

Result<Precision> precision_of(const AskedFlags& flags, const GptSizes& sizes, const estimates::Gpu& gpu) {
  if (!sizes.half && flags.precision.empty()) {
    return bad_input("--precision: " + flags.megatron +
                     " trains in float32, which is not priced; it has neither --bf16 nor --fp16. Give --precision");
  }
  Precision precision = sizes.dtype == "float16" ? Precision::kFloat16 : Precision::kBfloat16;
  if (!sizes.recipe.empty()) precision = Precision::kFloat8;
  if (!flags.precision.empty()) {
    TRIMTAB_TRY_STATUS(check_choice("--precision", flags.precision, known(kPrecisions)));
    precision = std::ranges::find(kPrecisions, flags.precision, &Word<Precision>::word)->value;
  }
  const std::string name(gpu.name);
  if (precision == Precision::kBfloat16 && !gpu.has_bfloat16) {
    return bad_input("--precision: " + name + " has no bfloat16; give --precision fp16");
  }
  if (precision == Precision::kFloat8 && gpu.float8_flops == 0) {
    return bad_input("--precision: " + name + " has no float8; give --precision bf16");
  }
  return precision;
}

}  // namespace

void add_asked_flags(CLI::App* verb, AskedFlags& flags) {
  add_value(verb, "--hf", flags.hf, "FILE", "config.json of a decoder, as transformers has it");
  add_value(verb, "--megatron", flags.megatron, "FILE",
            "In its place: a launch script of Megatron-LM, or its arguments");
  add_values(verb, "--neutral", flags.neutral, "NAME",
             "An option of your own in it that changes neither the model, nor its memory, nor its time");
  add_value(verb, "--gpus", flags.gpus, "NxGPU", "The GPUs: 64xH100, 8xA100-40GB");
  add_value(verb, "--network", flags.network, "TEXT",
            "Between nodes: 8x400G (links of a node), 400G (of each GPU), with RoCE or EFA behind where it is that "
            "(default: what is usual)");
  add_value(verb, "--sequence", flags.sequence, "N",
            "Tokens of a sample (default: 8192, or what the model is made for)");
  add_value(verb, "--global-batch", flags.batch, "N", "Samples of a step (default: about 4 Mi tokens)");
  add_value(verb, "--target", flags.target, joined(estimates::target_names(), "|"), "Whose code runs the plan",
            Need::kHasDefault);
  add_value(verb, "--precision", flags.precision, joined(known(kPrecisions), "|"),
            "Of products (default: bf16, or what --megatron says)");
  add_value(verb, "--measured", flags.measured, "FILE",
            "Steps that you measured of this model on such GPUs, a line of JSON each: they sharpen all estimates");
  add_value(verb, "--name", flags.name, "TEXT", "The model's name");
}

Result<Asked> read_asked(const AskedFlags& flags) {
  if (flags.hf.empty() == flags.megatron.empty()) {
    return bad_input("needed: the model, by --hf config.json or by --megatron FILE, one of them");
  }
  Asked asked;
  TRIMTAB_TRY_STATUS(check_choice("--target", flags.target, estimates::target_names()));
  TRIMTAB_TRY(asked.target, estimates::target_by_name(flags.target));
  TRIMTAB_TRY(asked.machines, machines_of(flags));
  TRIMTAB_TRY(GptSizes sizes, flags.hf.empty() ? sizes_of_megatron(flags) : sizes_of_hf(flags));
  if (sizes.sequence > kMost || sizes.batch > kMost) {
    return bad_input("--sequence and --global-batch: expected at most " + std::to_string(kMost) + ", found " +
                     std::to_string(std::max(sizes.sequence, sizes.batch)));
  }
  const Machine& largest = asked.machines.back();
  assume(sizes, largest.devices, asked.assumed);
  if (sizes.positions > 0 && sizes.sequence > sizes.positions) {
    return bad_input("--sequence " + std::to_string(sizes.sequence) + ": the model has learned positions for " +
                     std::to_string(sizes.positions) + " tokens; give that or less");
  }
  TRIMTAB_TRY(asked.precision, precision_of(flags, sizes, largest.gpu));
  if (asked.target == estimates::Target::kTorchtitan && asked.precision == Precision::kFloat16) {
    return bad_input(
        "--target torchtitan: trains in bfloat16 or float32, and fp16 was asked for or is all that the GPU has");
  }
  if (!largest.network.stated && largest.nodes() > 1) {
    asked.assumed.push_back("a network of " + format_number(largest.network.bandwidth * 8 / 1e9, 0) +
                            " Gbit/s for each GPU (--network)");
  }
  const std::string name = name_of(flags);
  TRIMTAB_TRY(asked.model, gpt_model(sizes, name));
  TRIMTAB_TRY_STATUS(check_priced(asked.model));
  asked.shape = estimates::shape_of(sizes, name);
  if (sizes.half) {
    asked.gradient_bytes = static_cast<std::int32_t>(2 * sizes.gradient);
    asked.optimizer_bytes = static_cast<std::int32_t>(std::ceil(2 * asked.model.optimizer_bytes_per_parameter_byte));
  }
  asked.global_batch = static_cast<std::int32_t>(sizes.batch);
  if (!flags.measured.empty()) {
    TRIMTAB_TRY(asked.correction, read_measured(flags.measured, asked));
  }
  return asked;
}

std::string_view word_of(Precision precision) {
  return std::ranges::find(kPrecisions, precision, &Word<Precision>::value)->word;
}

Result<Recomputed> recomputed_by_name(const std::string& flag, const std::string& name) {
  TRIMTAB_TRY_STATUS(check_choice(flag, name, known(estimates::kRecomputedWords)));
  return std::ranges::find(estimates::kRecomputedWords, name, &Word<Recomputed>::word)->value;
}

std::string_view word_of(Recomputed kind) {
  return std::ranges::find(estimates::kRecomputedWords, kind, &Word<Recomputed>::value)->word;
}

}  // namespace trimtab::cli
