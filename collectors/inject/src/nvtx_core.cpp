// Module CORE: the functions without a domain.

#include "nvtx_callbacks.hpp"
#include "nvtx_event.hpp"

namespace trimtab::inject::nvtx {

namespace {

constexpr std::uint32_t kDefaultDomain = 0;

Event named(const char* text) {
  return {.text = text};
}
Event named(const WideText& text) {
  return {.text = text.text(), .volatile_text = true};
}

void mark_ex(const EventAttributes* attributes) {
  if (recorder.session.recording()) recorder.mark(kDefaultDomain, DecodedEvent(attributes).event());
}
void mark_a(const char* text) {
  recorder.mark(kDefaultDomain, named(text));
}
void mark_w(const wchar_t* text) {
  recorder.mark(kDefaultDomain, named(WideText(text)));
}

std::uint64_t start_ex(const EventAttributes* attributes) {
  if (!recorder.session.recording()) return 0;
  return recorder.start(kDefaultDomain, DecodedEvent(attributes).event());
}
std::uint64_t start_a(const char* text) {
  return recorder.start(kDefaultDomain, named(text));
}
std::uint64_t start_w(const wchar_t* text) {
  return recorder.start(kDefaultDomain, named(WideText(text)));
}
void range_end(std::uint64_t id) {
  recorder.end(id);
}

int push_ex(const EventAttributes* attributes) {
  if (!recorder.session.recording()) return kNotTracked;
  return recorder.push(kDefaultDomain, DecodedEvent(attributes).event());
}
int push_a(const char* text) {
  return recorder.push(kDefaultDomain, named(text));
}
int push_w(const wchar_t* text) {
  return recorder.push(kDefaultDomain, named(WideText(text)));
}
int range_pop() {
  return recorder.pop(kDefaultDomain);
}

void name_thread_a(std::uint32_t thread, const char* name) {
  recorder.name_thread(thread, name);
}
void name_thread_w(std::uint32_t thread, const wchar_t* name) {
  recorder.name_thread(thread, WideText(name).text());
}

const Callback kCallbacks[] = {
    {kMarkEx, reinterpret_cast<Function>(mark_ex)},
    {kMarkA, reinterpret_cast<Function>(mark_a)},
    {kMarkW, reinterpret_cast<Function>(mark_w)},
    {kRangeStartEx, reinterpret_cast<Function>(start_ex)},
    {kRangeStartA, reinterpret_cast<Function>(start_a)},
    {kRangeStartW, reinterpret_cast<Function>(start_w)},
    {kRangeEnd, reinterpret_cast<Function>(range_end)},
    {kRangePushEx, reinterpret_cast<Function>(push_ex)},
    {kRangePushA, reinterpret_cast<Function>(push_a)},
    {kRangePushW, reinterpret_cast<Function>(push_w)},
    {kRangePop, reinterpret_cast<Function>(range_pop)},
    {kNameOsThreadA, reinterpret_cast<Function>(name_thread_a)},
    {kNameOsThreadW, reinterpret_cast<Function>(name_thread_w)},
};

}  // namespace

CallbackList core_callbacks() {
  return {kCallbacks, kCallbacks + sizeof(kCallbacks) / sizeof(kCallbacks[0])};
}

}  // namespace trimtab::inject::nvtx
