// A request of a person or a script: "METHOD TARGET", then the body. The target is taken apart, routed and answered.

#include <nlohmann/json.hpp>

#include "api/access.hpp"
#include "coordinator_world.hpp"
#include "http/target.hpp"

using namespace trimtab;

namespace {

void check_headers(std::string_view text) {
  (void)net::refusal(text, text, true);
  (void)net::refusal(text.substr(0, text.size() / 2), text.substr(text.size() / 2), false);
  (void)net::bearer_token(text);
}

void check_answer(const net::HttpResponse& response) {
  TRIMTAB_ASSERT(response.status >= 200 && response.status < 600, "an answer has a status");
  if (response.content_type != "application/json") return;
  TRIMTAB_ASSERT(nlohmann::json::accept(response.body), "an answer that says it is JSON is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const std::size_t line = text.find('\n');
  const std::string head = text.substr(0, line);
  check_headers(head);
  const std::size_t space = head.find(' ');
  if (space == std::string::npos) return 0;
  const auto target = net::parse_target(std::string_view(head).substr(space + 1));
  if (!target) return 0;
  net::HttpRequest request{head.substr(0, space), target->path, target->query,
                           line == std::string::npos ? "" : text.substr(line + 1)};
  fuzz::CoordinatorWorld world;
  const coordinator::Access access(false, nullptr);
  coordinator::Api api(world.services, world.jobs, access, 100);
  if (api.admit(request)) return 0;
  const net::HttpResponse response = api.handle(request);
  check_answer(response);
  if (response.status < 300) fuzz::understood();
  return 0;
}
