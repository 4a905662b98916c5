#include "mutation.hpp"

#include <cstddef>

#include "base/check.hpp"

namespace trimtab::fuzz {

namespace {

// Numbers that parsers get wrong, and bytes that end or open something.
constexpr std::string_view kWords[] = {"9223372036854775808",
                                       "18446744073709551615",
                                       "2147483648",
                                       "-1",
                                       "1e400",
                                       "1e-400",
                                       "0.5",
                                       "-0.0",
                                       "null",
                                       "true",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "\\u0000",
                                       "\xff",
                                       "\xf0\x9f\x98\x80",
                                       ",",
                                       ":",
                                       "\"",
                                       "[[",
                                       "\n",
                                       "= ",
                                       "1;2;3"};

int hexadecimal(char digit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::size_t place = kDigits.find(static_cast<char>(digit >= 'A' && digit <= 'F' ? digit - 'A' + 'a' : digit));
  TRIMTAB_ASSERT(place != std::string_view::npos, "\\x in a dictionary is followed by two hexadecimal digits");
  return static_cast<int>(place);
}

std::string unquoted(std::string_view text) {
  std::string word;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      word += text[i];
      continue;
    }
    TRIMTAB_ASSERT(i + 1 < text.size(), "a dictionary's word does not end in a backslash");
    if (text[++i] != 'x') {
      word += text[i];
      continue;
    }
    TRIMTAB_ASSERT(i + 2 < text.size(), "\\x in a dictionary is followed by two hexadecimal digits");
    word += static_cast<char>(hexadecimal(text[i + 1]) * 16 + hexadecimal(text[i + 2]));
    i += 2;
  }
  return word;
}

std::string_view any_word(const std::vector<std::string>& words, Random& random) {
  const std::uint64_t chosen = random.below(std::size(kWords) + words.size());
  return chosen < std::size(kWords) ? kWords[chosen] : std::string_view(words[chosen - std::size(kWords)]);
}

std::size_t place_in(const std::string& text, Random& random) {
  return random.below(text.size() + 1);
}

// What stands between a separator and the next one.
void replace_value(std::string& text, std::size_t at, std::string_view by) {
  const std::size_t begin = text.find_first_of(":=,", at);
  const std::size_t end = begin == std::string::npos ? begin : text.find_first_of(",}]\n", begin + 1);
  if (end != std::string::npos) text.replace(begin + 1, end - begin - 1, by);
}

void mutate_once(std::string& text, const std::vector<std::string>& words, Random& random) {
  const std::size_t at = place_in(text, random);
  const std::size_t length = random.below(12);
  switch (random.below(6)) {
    case 0:
      text.erase(at, length);
      return;
    case 1:
      text.insert(at, any_word(words, random));
      return;
    case 2:
      text.insert(at, text.substr(place_in(text, random), length));
      return;
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(random.below(256));
      return;
    case 4:
      if (at < text.size() && text[at] >= '0' && text[at] <= '9') text[at] = static_cast<char>('0' + random.below(10));
      return;
    default:
      replace_value(text, at, any_word(words, random));
  }
}

}  // namespace

std::vector<std::string> dictionary_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t quote = line.find('"');
    TRIMTAB_ASSERT(quote != std::string_view::npos && line.size() > quote + 1 && line.back() == '"',
                   "a dictionary's line is name=\"text\"");
    words.push_back(unquoted(line.substr(quote + 1, line.size() - quote - 2)));
  }
  return words;
}

std::string mutated(std::string input, const std::vector<std::string>& words, Random& random) {
  for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) mutate_once(input, words, random);
  return input;
}

}  // namespace trimtab::fuzz
