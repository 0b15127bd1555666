#include <waymark/store.hpp>

namespace waymark {

save_options& save_options::create_only() & noexcept
{
    create_only_ = true;
    return *this;
}

save_options&& save_options::create_only() && noexcept
{
    return std::move(create_only());
}

save_options& save_options::expect_head(std::optional<std::string> id) &
{
    expects_head_ = true;
    passes_over_damage_ = false;
    expected_head_ = std::move(id);
    return *this;
}

save_options&& save_options::expect_head(std::optional<std::string> id) &&
{
    return std::move(expect_head(std::move(id)));
}

save_options& save_options::expect_readable_head(std::string id) &
{
    expect_head(std::move(id));
    passes_over_damage_ = true;
    return *this;
}

save_options&& save_options::expect_readable_head(std::string id) &&
{
    return std::move(expect_readable_head(std::move(id)));
}

store::~store() = default;

const limits& store::bounds() const noexcept
{
    static const limits defaults;
    return defaults;
}

save_result store::save(const checkpoint& checkpoint, const save_options& options)
{
    const save_request request(checkpoint, options);
    return save(std::span(&request, 1)).at(0).value_or_throw();
}

} // namespace waymark
