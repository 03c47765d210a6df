"""The console opens: pages, static files, the API, and its description."""

from __future__ import annotations

from tests.unit.console.rig import ConsoleRig


async def test_every_page_of_the_navigation_opens() -> None:
    async with ConsoleRig() as rig:
        for _, entries in rig.console.renderer.nav:
            for entry in entries:
                assert "</html>" in await rig.page(entry.path)


async def test_static_files_are_kept_by_browsers_under_their_hash() -> None:
    async with ConsoleRig() as rig:
        page = await rig.stranger.page("/login")
        for name in ("app.css", "app.js", "icon.svg"):
            address = page.split(f'"/static/{name}')[1].split('"')[0]
            response = await rig.stranger.get(f"/static/{name}{address}")
            assert response.status_code == 200
            assert "immutable" in response.headers["cache-control"]


async def test_the_api_answers_a_token_and_describes_itself() -> None:
    async with ConsoleRig() as rig:
        response = await rig.api("GET", "/cluster")
        assert response.status_code == 200, response.text
        assert [broker["broker"] for broker in response.json()["brokers"]] == ["broker-a"]
        description = (await rig.operator.get("/api/openapi.json")).json()
        assert description["openapi"] == "3.1.0"
        assert "/api/v1/cluster" in description["paths"]
