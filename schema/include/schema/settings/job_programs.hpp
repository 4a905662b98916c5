#pragma once

// How much a program may be started with: each argument and each "NAME=VALUE" of its environment, and all of them
// together. Beyond Linux's bounds (execve(2): MAX_ARG_STRLEN, ARG_MAX) no program starts. Pure, for any thread.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/job.hpp"

namespace trimtab {

// Bytes, without the zero behind it.
inline constexpr std::size_t kLongestWord = (std::size_t{128} << 10) - 1;
// Bytes of all words, each with the zero behind it and the pointer to it.
inline constexpr std::size_t kMostWords = std::size_t{2} << 20;
// Of a job's command and environment as they are handed in: placeholders, the plan's arguments and the node's own
// environment come to it.
inline constexpr std::size_t kMostWordsOfJob = std::size_t{256} << 10;

// What a word takes of those bounds.
[[nodiscard]] constexpr std::size_t word_bytes(std::size_t length) {
  return length + 1 + sizeof(char*);
}

// An error names the first word that is too long, or what all of them take and may take.
[[nodiscard]] Status check_words(const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& environment, std::size_t most);

// Of a job that is handed in: each of its commands, and what its own knobs set. One that is stored already is not
// asked.
[[nodiscard]] Status check_programs(const Job& job);

}  // namespace trimtab
