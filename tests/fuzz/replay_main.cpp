// A fuzz target as an ordinary program, where there is no libFuzzer:
//   fuzz_TARGET CORPUS [--dictionary FILE] [--mutations N] [--seed S]
// gives the target every file of the corpus, then N mutations of them. An input that takes longer than kLongestInput
// ends the program.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "mutation.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr unsigned kLongestInputSeconds = 20;

struct Options {
  std::string corpus;
  std::string dictionary;
  std::uint64_t mutations = 0;
  std::uint64_t seed = std::random_device{}();
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_flag = word == "--dictionary" || word == "--mutations" || word == "--seed";
    if (!is_flag && options.corpus.empty() && !word.starts_with("--")) {
      options.corpus = word;
      continue;
    }
    if (!is_flag || i + 1 == argc) fail("usage: CORPUS [--dictionary FILE] [--mutations N] [--seed S]; found " + word);
    const std::string value = argv[++i];
    if (word == "--dictionary") options.dictionary = value;
    if (word == "--mutations") options.mutations = std::strtoull(value.c_str(), nullptr, 10);
    if (word == "--seed") options.seed = std::strtoull(value.c_str(), nullptr, 10);
  }
  return options;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> files_of(const std::string& directory) {
  std::error_code failure;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) files.push_back(entry.path());
  if (failure || files.empty()) fail("a corpus is a directory of files, found none in '" + directory + "'");
  std::ranges::sort(files);
  return files;
}

void give(const std::string& input) {
  ::alarm(kLongestInputSeconds);
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  ::alarm(0);
}

// Seen where the target ends the program.
void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  const auto words =
      options.dictionary.empty() ? std::vector<std::string>() : fuzz::dictionary_words(contents(options.dictionary));
  std::vector<std::string> inputs;
  for (const auto& path : files_of(options.corpus)) {
    inputs.push_back(contents(path));
    give(inputs.back());
  }
  const std::uint64_t understood = fuzz::understood_so_far();
  say(std::to_string(inputs.size()) + " inputs, " + std::to_string(understood) + " times something was understood");
  if (understood == 0) fail("nothing of the corpus is understood: it tests nothing behind the parsers");
  if (options.mutations == 0) return 0;
  say("--mutations " + std::to_string(options.mutations) + " --seed " + std::to_string(options.seed));
  Random random(options.seed);
  for (std::uint64_t i = 0; i < options.mutations; ++i) {
    give(fuzz::mutated(inputs[random.below(inputs.size())], words, random));
  }
  say(std::to_string(fuzz::understood_so_far() - understood) + " times something of them was understood");
  return 0;
}
